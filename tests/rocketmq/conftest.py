"""Fixtures of the RocketMQ tests: recorded responses, and a server that misbehaves on demand."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest
from hypothesis import settings

from tests.support.recorded import FIXTURES

settings.register_profile("untimed", deadline=None)  # a busy machine is no failure
settings.load_profile("untimed")


Behaviour = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@pytest.fixture(params=["4.9.7", "5.3.3"])
def version(request: pytest.FixtureRequest) -> str:
    """A RocketMQ version whose answers are recorded."""
    return request.param


@pytest.fixture
def recorded() -> Callable[[str, str], bytes]:
    """``recorded(version, "43_consumer_offset_m.body")``: bytes a real broker sent."""
    return lambda version, name: (FIXTURES / f"rocketmq-{version}" / name).read_bytes()


@pytest.fixture(scope="session")
def golden() -> dict[str, dict[str, str]]:
    """Output of RocketMQ's own classes, by version and name (several lines where pretty)."""
    versions: dict[str, dict[str, str]] = {}
    name = version = ""
    for line in (FIXTURES / "golden" / "encodings.txt").read_text().splitlines():
        if line.startswith("########"):
            version = line.split()[1]
            versions[version] = {}
        elif line.startswith("["):
            name, _, text = line[1:].partition("] ")
            versions[version][name] = text
        else:
            versions[version][name] += "\n" + line
    return versions


@pytest.fixture
def scripted() -> Callable[[Behaviour], object]:
    """A function that starts a server with a scripted behaviour: async context of its address."""

    @asynccontextmanager
    async def serve(behaviour: Behaviour) -> AsyncIterator[str]:
        tasks: set[asyncio.Task[None]] = set()

        async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            task = asyncio.current_task()
            assert task
            tasks.add(task)
            try:
                await behaviour(reader, writer)
            except (ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
                pass
            finally:
                writer.close()

        server = await asyncio.start_server(handle, "127.0.0.1", 0)
        host, port = server.sockets[0].getsockname()
        try:
            yield f"{host}:{port}"
        finally:
            server.close()
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    return serve
