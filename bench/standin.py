"""Responses without brokers: for sizes that no machine at hand boots, and for profiling.

Bodies have the form that 5.3.3 sends; every broker of the stand-in holds all of a `Large`.
"""

import asyncio
import json
import socket
import struct
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from multiprocessing import Process
from typing import Any

from tidemark.lab.large import Large
from tidemark.rocketmq.snapshot.broker_reading import EVERYWHERE
from tidemark.rocketmq.wire.codes import RequestCode, ResponseCode

_STORED_AT = 1_795_252_923_864
_RUNTIME = {"brokerVersionDesc": "V5_3_3", "commitLogDiskRatio": "0.21", "putTps": "1.0 1.0 1.0"}


@contextmanager
def serve(large: Large, brokers: int, port: int = 0) -> Iterator[str]:
    """Run a name server and brokers in a process of their own; gives the name server's address.

    Args:
        large: what each broker holds.
        brokers: their number.
        port: of the name server, 0 for any.
    """
    ports = (port, *[0] * brokers)
    sockets = [socket.create_server(("127.0.0.1", port), backlog=64) for port in ports]
    with in_process(_run, sockets, large, sockets) as address:
        yield address


@contextmanager
def in_process(
    run: Callable[..., None], sockets: Sequence[socket.socket], *arguments: Any
) -> Iterator[str]:
    """Run servers in a process of their own; gives the address of the first.

    Args:
        run: serves until the process is killed.
        sockets: what it listens on; the process that measures closes its own copies.
        arguments: of `run`.
    """
    process = Process(target=run, args=arguments, daemon=True)
    process.start()
    address = f"127.0.0.1:{sockets[0].getsockname()[1]}"
    for listening in sockets:
        listening.close()
    try:
        yield address
    finally:
        process.kill()
        process.join()


def consumer_offsets(large: Large) -> bytes:
    """A 43 body."""
    parts = (
        f'"{topic}@{group}":{{' + ",".join(f"{it}:{at}" for it, at in offsets.items()) + "}"
        for topic, group, offsets in large.progress()
    )
    return ('{"dataVersion":{"counter":1},"offsetTable":{' + ",".join(parts) + "}}").encode()


def topic_stats(broker: str, topic: str, queues: int, messages: int) -> bytes:
    """A 202 body."""
    parts = (
        f'{{"brokerName":"{broker}","queueId":{queue_id},"topic":"{topic}"}}:'
        f'{{"lastUpdateTimestamp":{_STORED_AT},"maxOffset":{messages},"minOffset":0}}'
        for queue_id in range(queues)
    )
    return ('{"offsetTable":{' + ",".join(parts) + '},"topicPutTps":0.0}').encode()


def _run(large: Large, sockets: list[socket.socket]) -> None:
    asyncio.run(_serve(large, sockets))


async def _serve(large: Large, sockets: list[socket.socket]) -> None:
    loop = asyncio.get_running_loop()
    ports = [it.getsockname()[1] for it in sockets]
    names = [f"broker-{number}" for number in range(len(sockets) - 1)]
    responses = [listing(names, ports[1:]), *(_responses(large, name) for name in names)]
    for listening, known in zip(sockets, responses, strict=True):
        await loop.create_server(lambda known=known: answering(known), sock=listening)
    await asyncio.Event().wait()


def listing(names: list[str], ports: list[int]) -> dict[tuple[int, str], bytes]:
    """Return a name server's response that lists masters by name, at ports of this machine."""
    groups = ",".join(
        f'"{name}":{{"brokerAddrs":{{0:"127.0.0.1:{port}"}},"brokerName":"{name}","cluster":"c"}}'
        for name, port in zip(names, ports, strict=True)
    )
    body = f'{{"brokerAddrTable":{{{groups}}},"clusterAddrTable":{{"c":{json.dumps(names)}}}}}'
    return {(RequestCode.GET_BROKER_CLUSTER_INFO, ""): body.encode()}


def _responses(large: Large, broker: str) -> dict[tuple[int, str], bytes]:
    files = large.files()
    queues = {
        topic: (int(config["readQueueNums"]), 0 if topic.startswith("%") else large.messages)
        for topic, config in json.loads(files["store/config/topics.json"])[
            "topicConfigTable"
        ].items()
    }
    known: dict[tuple[int, str], bytes] = {
        (RequestCode.GET_ALL_CONSUMER_OFFSET, ""): consumer_offsets(large),
        (RequestCode.GET_ALL_TOPIC_CONFIG, ""): files["store/config/topics.json"].encode(),
        (RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG, ""): files[
            "store/config/subscriptionGroup.json"
        ].encode(),
        (RequestCode.GET_BROKER_RUNTIME_INFO, ""): json.dumps({"table": _RUNTIME}).encode(),
        (RequestCode.GET_ALL_MESSAGE_REQUEST_MODE, ""): b'{"messageRequestModeMap":{}}',
        (RequestCode.GET_BROKER_CONFIG, ""): f"brokerName={broker}\n".encode(),
    }
    for topic, numbers in queues.items():
        known[RequestCode.GET_TOPIC_STATS_INFO, topic] = topic_stats(broker, topic, *numbers)
    return known


def answering(known: dict[tuple[int, str], bytes]) -> asyncio.Protocol:
    """A connection with responses to known requests and topics; other groups are offline."""
    return _StandIn(known)


def _clock() -> bytes:
    """A 303 body for a group that never consumes: the broker's now."""
    span = {"messageQueue": {"queueId": 0}, "delayTime": time.time_ns() // 1_000_000 + 1}
    return json.dumps({"consumeTimeSpanSet": [span]}).encode()


class _StandIn(asyncio.Protocol):
    def __init__(self, known: dict[tuple[int, str], bytes]):
        self._known = known
        self._buffer = bytearray()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        responses = []
        while len(self._buffer) >= 8:
            total, header = struct.unpack_from(">ii", self._buffer)
            if len(self._buffer) < 4 + total:
                break
            request = json.loads(self._buffer[8 : 8 + header])
            del self._buffer[: 4 + total]
            responses.append(self._respond(request))
        self._transport.write(b"".join(responses))

    def _respond(self, request: dict) -> bytes:
        subject = request.get("extFields", {}).get("topic", "")
        body = self._known.get((request["code"], subject))
        if (request["code"], subject) == (RequestCode.QUERY_CONSUME_TIME_SPAN, EVERYWHERE):
            body = _clock()
        code = ResponseCode.CONSUMER_NOT_ONLINE if body is None else ResponseCode.SUCCESS
        header = json.dumps(
            {
                "code": code,
                "flag": 1,
                "language": "JAVA",
                "opaque": request["opaque"],
                "serializeTypeCurrentRPC": "JSON",
                "version": 479,
            },
            separators=(",", ":"),
        ).encode()
        body = body or b""
        return struct.pack(">ii", 4 + len(header) + len(body), len(header)) + header + body
