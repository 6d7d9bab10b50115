"""Name servers and brokers that attack their clients, each in a process of its own.

They listen on loopback only. Every attack is a name server with one or more masters. Requests
that an attack does not change get the response of an honest server.
"""

import asyncio
import json
import resource
import socket
import struct
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from multiprocessing import Event
from multiprocessing.synchronize import Event as Signal

from bench.standin import in_process
from tidemark.rocketmq.wire.codes import RequestCode, ResponseCode

CLUSTER = "DefaultCluster"
BROKER = "broker-a"

Bodies = dict[int, bytes]
"""Bodies of responses by request code."""

Send = Callable[[bytes], Awaitable[None]]
Serve = Callable[[int, int, Send], Awaitable[None]]
"""Responds to a request of a code with an opaque."""

ADVERTISED = 10_000

READY_SECONDS = 120
"""Longest time to make the bodies of an attack, also on a busy machine."""


def unreachable_addresses(ports: list[int]) -> tuple[bytes, Serve]:
    """10,000 addresses where connections are taken and nothing ever comes."""
    return listing({f"b{number}": at for number, at in enumerate(_loopback(ports[0]))}), nothing


def host_names(ports: list[int]) -> tuple[bytes, Serve]:
    """10,000 host names that do not resolve."""
    names = {f"b{it}": f"tidemark-{it}.invalid:{ports[0]}" for it in range(ADVERTISED)}
    return listing(names), nothing


def topics_without_queues(ports: list[int]) -> tuple[bytes, Serve]:
    """A million topics that have no queue, in 63 MB."""
    return one_broker(ports), responding({RequestCode.GET_ALL_TOPIC_CONFIG: topics(1_000_000)})


def allowed_topics(ports: list[int]) -> tuple[bytes, Serve]:
    """As many topics as a broker may have, and no response about any."""
    return one_broker(ports), responding({RequestCode.GET_ALL_TOPIC_CONFIG: topics(100_000)})


def ten_million_topics(ports: list[int]) -> tuple[bytes, Serve]:
    """10 million topics, in 650 MB, sent for as long as anybody listens."""
    part = topics(100_000)[len(b'{"topicConfigTable":{') : -2]

    async def serve(code: int, opaque: int, send: Send) -> None:
        if code != RequestCode.GET_ALL_TOPIC_CONFIG:
            await send(frame(opaque, honest().get(code)))
            return
        header = _header(opaque)
        await send(struct.pack(">ii", 4 + len(header) + 100 * len(part), len(header)) + header)
        for _ in range(100):
            await send(part)

    return one_broker(ports), serve


def slow_bytes(ports: list[int]) -> tuple[bytes, Serve]:
    """A byte a second."""
    in_turn = asyncio.Lock()

    async def serve(code: int, opaque: int, send: Send) -> None:
        async with in_turn:
            for byte in frame(opaque, honest().get(code)):
                await send(bytes([byte]))
                await asyncio.sleep(1)

    return one_broker(ports), serve


def slow_parser(ports: list[int]) -> tuple[bytes, Serve]:
    """Bodies of nearly 8 MiB in a form that only the tolerant parser reads, for each request."""
    entries = ",".join(f'"T{number}@g":{{0: 5}}' for number in range(430_000))
    offsets = f'{{"offsetTable":{{{entries}}}}}'.encode()
    entries = ",".join(f'{{"topic":"T{it}"}}:{{0: 5,"\\u0061":1}}' for it in range(240_000))
    other = (
        f'{{"topicConfigTable":{{}},"subscriptionGroupTable":{{}},"messageRequestModeMap":{{}},'
        f'"table":{{}},"x":{{{entries}}}}}'
    ).encode()
    known = dict.fromkeys(honest(), other) | {RequestCode.GET_ALL_CONSUMER_OFFSET: offsets}
    return one_broker(ports), responding(known)


def many_rows(ports: list[int]) -> tuple[bytes, Serve]:
    """A topic of 100,000 queues, and 200 groups online that subscribe to it: 20 million rows."""
    config = {"readQueueNums": 100_000, "writeQueueNums": 0, "perm": 6}
    groups = {f"g{number}": {"consumeEnable": True} for number in range(200)}
    member = {"clientId": "c", "language": "JAVA", "version": 479}
    group = {
        "connectionSet": [member],
        "messageModel": "CLUSTERING",
        "subscriptionTable": {"T": {"topic": "T", "subString": "*", "expressionType": "TAG"}},
    }
    bodies = {
        RequestCode.GET_ALL_TOPIC_CONFIG: {"topicConfigTable": {"T": config}},
        RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG: {"subscriptionGroupTable": groups},
        RequestCode.GET_CONSUMER_CONNECTION_LIST: group,
        RequestCode.GET_TOPIC_STATS_INFO: {"offsetTable": {}},
    }
    return one_broker(ports), responding({it: json.dumps(bodies[it]).encode() for it in bodies})


def flood(ports: list[int]) -> tuple[bytes, Serve]:
    """Frames without end that no request was for."""

    async def serve(code: int, opaque: int, send: Send) -> None:
        while True:
            await send(frame(opaque + 1_000_000, b"x" * 60_000))

    return one_broker(ports), serve


ATTACKS: dict[str, Callable[[list[int]], tuple[bytes, Serve]]] = {
    "10,000 unreachable addresses": unreachable_addresses,
    "10,000 host names": host_names,
    "1 million topics without queues": topics_without_queues,
    "100,000 topics, no response about any": allowed_topics,
    "10 million topics": ten_million_topics,
    "a byte a second": slow_bytes,
    "bodies for the slow parser": slow_parser,
    "20 million rows from 20 kB": many_rows,
    "a flood of frames": flood,
}


@contextmanager
def serve(attack: str) -> Iterator[str]:
    """Run the servers of an attack; gives the address of the name server."""
    sockets = [socket.create_server(("127.0.0.1", 0), backlog=64) for _ in range(2)]
    ready = Event()
    with in_process(_run, sockets, attack, sockets, ready) as address:
        if not ready.wait(READY_SECONDS):
            raise TimeoutError(f"{attack}: its servers did not start")
        yield address


def listing(addresses: dict[str, str]) -> bytes:
    """A 106 body with masters by name."""
    groups = {
        name: {"brokerAddrs": {"0": address}, "brokerName": name, "cluster": CLUSTER}
        for name, address in addresses.items()
    }
    known = {"brokerAddrTable": groups, "clusterAddrTable": {CLUSTER: list(addresses)}}
    return json.dumps(known).encode()


def one_broker(ports: list[int]) -> bytes:
    """A 106 body with the broker of this attack."""
    return listing({BROKER: f"127.0.0.1:{ports[1]}"})


def topics(number: int) -> bytes:
    """A 21 body of topics without queues."""
    config = '{"readQueueNums":0,"writeQueueNums":0,"perm":6}'
    entries = ",".join(f'"t{it}":{config}' for it in range(number))
    return f'{{"topicConfigTable":{{{entries}}}}}'.encode()


def honest() -> Bodies:
    """The responses of an empty broker."""
    return {
        RequestCode.GET_ALL_CONSUMER_OFFSET: b'{"offsetTable":{}}',
        RequestCode.GET_ALL_TOPIC_CONFIG: b'{"topicConfigTable":{}}',
        RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG: b'{"subscriptionGroupTable":{}}',
        RequestCode.GET_BROKER_RUNTIME_INFO: b'{"table":{"brokerVersionDesc":"V5_3_3"}}',
        RequestCode.GET_ALL_MESSAGE_REQUEST_MODE: b'{"messageRequestModeMap":{}}',
        RequestCode.GET_BROKER_CONFIG: f"brokerName={BROKER}\n".encode(),
        RequestCode.QUERY_CONSUME_TIME_SPAN: b'{"consumeTimeSpanSet":[]}',
    }


def responding(bodies: Bodies) -> Serve:
    """Respond with these bodies or as an honest broker; leave other requests without a response."""
    known = honest() | bodies

    async def serve(code: int, opaque: int, send: Send) -> None:
        if code in known:
            await send(frame(opaque, known[code]))

    return serve


async def nothing(code: int, opaque: int, send: Send) -> None:
    """Respond to nothing."""


def frame(opaque: int, body: bytes | None) -> bytes:
    """A response; one without a body is refused."""
    code = ResponseCode.SYSTEM_ERROR if body is None else ResponseCode.SUCCESS
    header, body = _header(opaque, code), body or b""
    return struct.pack(">ii", 4 + len(header) + len(body), len(header)) + header + body


def _header(opaque: int, code: int = 0) -> bytes:
    return json.dumps(
        {"code": code, "flag": 1, "language": "JAVA", "opaque": opaque, "version": 479}
    ).encode()


def _loopback(port: int) -> list[str]:
    """Listen at as many addresses of loopback as the system grants, and return them all.

    The kernel takes the connections; nobody reads them.
    """
    addresses = [f"127.66.{it // 250}.{it % 250 + 1}" for it in range(ADVERTISED)]
    for address in addresses[: _raised() - 64]:
        _LISTENING.append(socket.create_server((address, port), backlog=2))
    return [f"{address}:{port}" for address in addresses]


_LISTENING: list[socket.socket] = []


def _raised() -> int:
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return hard


def _run(attack: str, sockets: list[socket.socket], ready: Signal) -> None:
    ports = [it.getsockname()[1] for it in sockets]
    known, serve = ATTACKS[attack](ports)

    async def name_server(code: int, opaque: int, send: Send) -> None:
        await send(frame(opaque, known))

    async def main() -> None:
        for listening, respond in zip(sockets, (name_server, serve), strict=True):
            await asyncio.start_server(_connection(respond), sock=listening)
        ready.set()
        await asyncio.Event().wait()

    asyncio.run(main())


def _connection(
    respond: Serve,
) -> Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]:
    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        async def send(data: bytes) -> None:
            writer.write(data)
            await writer.drain()

        under_way: set[asyncio.Task[None]] = set()
        try:
            while True:
                (total,) = struct.unpack(">i", await reader.readexactly(4))
                content = await reader.readexactly(total)
                request = json.loads(content[4 : 4 + int.from_bytes(content[1:4], "big")])
                task = asyncio.create_task(
                    _quiet(respond(request["code"], request["opaque"], send))
                )
                under_way.add(task)
                task.add_done_callback(under_way.discard)
        except (OSError, asyncio.IncompleteReadError):
            return
        finally:
            for task in under_way:
                task.cancel()
            writer.close()

    return handle


async def _quiet(responding: Awaitable[None]) -> None:
    try:
        await responding
    except OSError:
        return
