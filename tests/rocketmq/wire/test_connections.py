"""Connections of one client: a few at a time serve any number of endpoints."""

import asyncio
from contextlib import AsyncExitStack

from tests.support.wire_servers import next_opaque, respond
from tidemark.rocketmq.wire.client import RemotingClient
from tidemark.rocketmq.wire.codes import (
    BudgetError,
    RemotingError,
    RequestCode,
    RequestTimeoutError,
)

REQUEST = RequestCode.GET_BROKER_RUNTIME_INFO


def test_many_endpoints_take_turns(scripted):
    open_now, most = 0, []

    async def behave(reader, writer):
        nonlocal open_now
        open_now += 1
        most.append(open_now)
        try:
            while True:
                writer.write(respond(await next_opaque(reader), b"hello"))
        finally:
            open_now -= 1

    async def main():
        async with AsyncExitStack() as stack:
            endpoints = [await stack.enter_async_context(scripted(behave)) for _ in range(20)]
            client = await stack.enter_async_context(RemotingClient(max_connections=3))
            for _ in range(3):
                calls = (client.call(endpoint, REQUEST) for endpoint in endpoints for _ in "ab")
                results = await asyncio.gather(*calls)
                assert {frame.body for frame in results} == {b"hello"}
            return client.requests

    assert asyncio.run(main()) == 120
    # The servers learn of a closed connection a moment later than the client opens the next.
    assert max(most) <= 3 * 2


def test_silent_endpoints_leave_turns_to_others(scripted):
    async def unreachable(reader, writer):
        await reader.read()

    async def honest(reader, writer):
        while True:
            writer.write(respond(await next_opaque(reader), b"hello"))

    async def main():
        async with AsyncExitStack() as stack:
            deaf = [await stack.enter_async_context(scripted(unreachable)) for _ in range(6)]
            good = await stack.enter_async_context(scripted(honest))
            client = RemotingClient(max_connections=2, request_timeout=0.2, total_timeout=60)
            stack.push_async_exit(client)
            calls = [client.call(endpoint, REQUEST) for endpoint in [*deaf, good]]
            return await asyncio.gather(*calls, return_exceptions=True)

    *failed, last = asyncio.run(main())
    assert last.body == b"hello"
    assert all(isinstance(frame, RemotingError) for frame in failed)


def test_whoever_waits_for_a_turn_fails_at_the_deadline(scripted):
    async def unreachable(reader, writer):
        await reader.read()

    async def main():
        async with AsyncExitStack() as stack:
            deaf = [await stack.enter_async_context(scripted(unreachable)) for _ in range(5)]
            client = RemotingClient(max_connections=1, request_timeout=30, total_timeout=0.3)
            stack.push_async_exit(client)
            calls = [client.call(endpoint, REQUEST) for endpoint in deaf]
            return await asyncio.gather(*calls, return_exceptions=True)

    frames = asyncio.run(main())
    assert all(isinstance(frame, RequestTimeoutError) for frame in frames)
    assert "no time left" in str(frames[-1])


def test_bytes_beyond_the_allowance_end_every_request(scripted):
    async def behave(reader, writer):
        while True:
            writer.write(respond(await next_opaque(reader), b"x" * 1_000_000))

    async def main():
        async with AsyncExitStack() as stack:
            endpoint = await stack.enter_async_context(scripted(behave))
            other = await stack.enter_async_context(scripted(behave))
            client = await stack.enter_async_context(RemotingClient(max_connections=5))
            client._allowance.max_bytes = 2_500_000
            calls = [client.call(endpoint, REQUEST) for _ in range(4)]
            results = await asyncio.gather(*calls, return_exceptions=True)
            results.append(
                (await asyncio.gather(client.call(other, REQUEST), return_exceptions=True))[0]
            )
            return results

    good, again, *refused = asyncio.run(main())
    assert len(good.body) == len(again.body) == 1_000_000
    assert all(isinstance(frame, BudgetError) for frame in refused)
    assert "max_mib in clusters.yaml" in str(refused[0])
