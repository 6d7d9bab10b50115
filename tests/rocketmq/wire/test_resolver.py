"""Lookups of host names: few threads, and none of one cluster that another waits for."""

import asyncio
import socket
import threading

import pytest

from tidemark.rocketmq.wire.addresses import Resolver


@pytest.fixture
def stuck(monkeypatch):
    """Lookups of names that begin with ``stuck`` end when this event is set."""
    release = threading.Event()
    real = socket.getaddrinfo

    def look_up(host, port, **more):
        if host.startswith("stuck"):
            release.wait(60)
            raise OSError("nobody knows it")
        return real("127.0.0.1", port, **more)

    monkeypatch.setattr("tidemark.rocketmq.wire.addresses.socket.getaddrinfo", look_up)
    yield release
    release.set()


def working():
    return sum(thread.name == "resolve" for thread in threading.enumerate())


async def looked_up(resolver, owner, host, seconds):
    async with asyncio.timeout(seconds):
        return await resolver.addresses(owner, host, 1)


@pytest.mark.slow
def test_ten_thousand_names_that_hang_take_four_threads_of_sixteen(stuck):
    before = working()

    async def main():
        resolver = Resolver()
        hostile = [
            asyncio.create_task(looked_up(resolver, "hostile", f"stuck-{number}", 60))
            for number in range(10_000)
        ]
        await asyncio.sleep(0)
        result = await looked_up(resolver, "honest", "honest.example", 60)
        threads = working() - before
        for task in hostile:
            task.cancel()
        await asyncio.gather(*hostile, return_exceptions=True)
        # The next snapshot of the hostile cluster waits for its own threads, others do not.
        with pytest.raises(TimeoutError):
            await looked_up(resolver, "hostile", "known.example", 0.2)
        assert await looked_up(resolver, "honest", "honest.example", 60) == result
        return result, threads

    item, threads = asyncio.run(main())
    assert item == ["127.0.0.1"]
    assert threads <= 5
    stuck.set()


def test_threads_end_with_their_work(stuck):
    stuck.set()
    before = working()

    async def main():
        resolver = Resolver()
        names = [f"host-{number}.example" for number in range(50)]
        results = await asyncio.gather(*(looked_up(resolver, "a", name, 60) for name in names))
        assert results == [["127.0.0.1"]] * 50
        with pytest.raises(OSError, match="not known"):
            await looked_up(resolver, "a", "stuck-1", 60)
        return resolver

    resolver = asyncio.run(main())
    for thread in threading.enumerate():
        if thread.name == "resolve":
            thread.join(30)
    assert working() <= before and not resolver._working and not resolver._under_way
