"""Python work in tasks that all run at the same time and tell each other what they found."""

import asyncio
import json
import secrets
from collections.abc import Awaitable, Callable, Iterable, Iterator
from contextlib import ExitStack
from multiprocessing.connection import Client, Connection, Listener
from typing import Any

import pyarrow as pa
from pyspark import BarrierTaskContext
from pyspark.sql import SparkSession

Exchange = Callable[[Any], Awaitable[list[Any]]]
"""Tells every task what this one found; returns what each found, in order of tasks. All must call
it equally often."""

Work = Callable[[int, int, Exchange], Iterator[pa.RecordBatch]]
"""(which task, of how many, the exchange) -> rows."""


def together(session: SparkSession, tasks: int, work: Work, schema: str) -> pa.Table:
    """Runs work in so many tasks at once and returns the rows of all.

    A task that fails, fails all: the others would wait for what it has to tell.

    Args:
        session: of a Spark that has so many slots free.
        tasks: how many.
        work: importable by the executors' Python, or picklable.
        schema: of the rows, in DDL.

    Raises:
        PySparkException: a task failed, or there are fewer slots than tasks.
    """

    def of_task(_: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        context = BarrierTaskContext.get()
        with ExitStack() as stack:
            exchange = _exchange(context, context.partitionId(), tasks, stack)
            yield from work(context.partitionId(), tasks, exchange)

    numbers = session.range(0, tasks, 1, tasks)
    return numbers.mapInArrow(of_task, schema, barrier=True).toArrow()


def _exchange(context: BarrierTaskContext, index: int, tasks: int, stack: ExitStack) -> Exchange:
    """Connects the tasks: all to the first.

    Spark's own `allGather` looks once a second whether everybody is there. It is good enough to
    tell where the first task listens, and with which key.
    """
    if index == 0:
        host = context.getTaskInfos()[0].address.rpartition(":")[0]
        key = secrets.token_bytes(32)
        listener = stack.enter_context(Listener((host, 0), backlog=tasks, authkey=key))
        context.allGather(json.dumps([*listener.address, key.hex()]))
        others: dict[int, Connection] = {}
        while len(others) < tasks - 1:
            connection = stack.enter_context(listener.accept())
            others[connection.recv()] = connection
        in_order = [others[number] for number in sorted(others)]

        def tell(found: Any) -> list[Any]:
            told = [found, *(other.recv() for other in in_order)]
            for other in in_order:
                other.send(told)
            return told

    else:
        host, port, key = json.loads(context.allGather()[0])
        first = stack.enter_context(Client((host, port), authkey=bytes.fromhex(key)))
        first.send(index)

        def tell(found: Any) -> list[Any]:
            first.send(found)
            return first.recv()

    async def exchange(found: Any) -> list[Any]:
        return await asyncio.to_thread(tell, found)

    return exchange
