"""Python work in Spark tasks that run at the same time and exchange values."""

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
"""Sends this task's value to all; returns the values of all tasks in their order. All tasks must
call it equally often."""

Work = Callable[[int, int, Exchange], Iterator[pa.RecordBatch]]
"""(which task, of how many, the exchange) -> rows."""


def together(session: SparkSession, tasks: int, work: Work, schema: str) -> pa.Table:
    """Run work in tasks at the same time and return the rows of all.

    A task that fails fails all, because the others would wait for its value.

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

    Spark's own `allGather` checks once a second whether all tasks have called it. It only carries
    the address of the first task and its key.
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

        def send(found: Any) -> list[Any]:
            values = [found, *(other.recv() for other in in_order)]
            for other in in_order:
                other.send(values)
            return values

    else:
        host, port, key = json.loads(context.allGather()[0])
        first = stack.enter_context(Client((host, port), authkey=bytes.fromhex(key)))
        first.send(index)

        def send(found: Any) -> list[Any]:
            first.send(found)
            return first.recv()

    async def exchange(found: Any) -> list[Any]:
        return await asyncio.to_thread(send, found)

    return exchange
