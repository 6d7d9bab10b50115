"""The transport against servers that misbehave; real ones are in test_cluster.py."""

import asyncio
import json
import socket
import struct
from pathlib import Path

import pytest

import tidemark.rocketmq
from tests.support.wire_servers import next_opaque, respond
from tidemark.rocketmq.admin import deep_requests
from tidemark.rocketmq.admin import requests as admin
from tidemark.rocketmq.admin.stored_messages import stored_message
from tidemark.rocketmq.wire.addresses import split_endpoint
from tidemark.rocketmq.wire.client import RemotingClient
from tidemark.rocketmq.wire.codes import (
    FORWARDED_TO_CLIENTS,
    LOOKS_UP_MESSAGES,
    READ_ONLY,
    BadResponseError,
    ConnectError,
    ConnectionLostError,
    ForbiddenRequest,
    NoResponseError,
    NotRocketMQError,
    RefusedError,
    RemotingError,
    RequestCode,
    RequestTimeoutError,
    ResponseError,
)
from tidemark.rocketmq.wire.frame import MAX_FRAME_BYTES

REQUEST = RequestCode.GET_BROKER_RUNTIME_INFO


def run(scripted, behaviour, use, **settings):
    """Give ``use`` a client and the endpoint of a server with the given behaviour."""

    async def main():
        async with scripted(behaviour) as endpoint, RemotingClient(**settings) as client:
            return await asyncio.wait_for(use(client, endpoint), 20)

    return asyncio.run(main())


async def failures(client, endpoint, number=1):
    """Return the results or errors of the given number of simultaneous requests."""
    calls = (client.call(endpoint, REQUEST, subject=str(it)) for it in range(number))
    return await asyncio.gather(*calls, return_exceptions=True)


# Read-only ---------------------------------------------------------------------------------------

NEVER = [11, 15, 17, 18, 25, 27, 36, 100, 200, 207, 215, 220, 222, 307, 308, 314, 355, 2001]
NEVER += [5002, 5003]  # 5.5.1: delete lists of topics and groups


@pytest.mark.parametrize("code", [*NEVER, 0, -1, 99999])
def test_codes_off_the_list_are_not_sent(scripted, code):
    received = []

    async def listen(reader, writer):
        received.append(await reader.read(1))

    async def use(client, endpoint):
        with pytest.raises(ForbiddenRequest):
            await client.call(endpoint, code)
        assert (client.requests, client.bytes) == (0, 0)

    run(scripted, listen, use)
    assert received == []


def test_the_list_holds_no_code_that_writes():
    assert not READ_ONLY & set(NEVER)
    assert set(NEVER) & (READ_ONLY | FORWARDED_TO_CLIENTS | LOOKS_UP_MESSAGES) == {307}
    assert set(RequestCode) == READ_ONLY | FORWARDED_TO_CLIENTS | LOOKS_UP_MESSAGES


def test_the_list_holds_no_code_that_nobody_sends():
    folder = Path(tidemark.rocketmq.__file__).parent
    requests = [file for room in ("admin", "deep") for file in (folder / room).glob("*.py")]
    code = "".join(file.read_text() for file in requests)
    assert [name.name for name in RequestCode if f"RequestCode.{name.name}" not in code] == []


def test_a_message_is_looked_up_only_with_permission(scripted):
    received = []

    async def listen(reader, writer):
        received.append(await next_opaque(reader))
        writer.write(respond(received[-1], b"no record"))
        await reader.read()

    async def use(client, endpoint):
        with pytest.raises(BadResponseError, match="cut off"):
            await stored_message(client, endpoint, "T", 7)

    for denied in ({}, {"client_reports": True}):
        with pytest.raises(ForbiddenRequest):
            run(scripted, listen, use, **denied)
    assert received == []
    run(scripted, listen, use, message_lookup=True)
    assert len(received) == 1


def test_client_requests_need_permission_and_omit_stacks_unless_wanted(scripted):
    requested = []

    async def behave(reader, writer):
        for body in (b"{}", b'{"consumerTable":{}}', b"{}"):
            (total,) = struct.unpack(">i", await reader.readexactly(4))
            content = await reader.readexactly(total)
            header = json.loads(content[4 : 4 + int.from_bytes(content[1:4], "big")])
            requested.append((header["code"], header["extFields"]))
            writer.write(respond(header["opaque"], body))
        await reader.read()

    async def use(client, endpoint):
        await deep_requests.running_info(client, endpoint, "g", "c")
        with pytest.raises(BadResponseError, match="did not respond"):  # it is left out
            await deep_requests.consumer_status(client, endpoint, "g", "T", "c")
        assert (await deep_requests.running_stacks(client, endpoint, "g", "c")).stacks is None

    with pytest.raises(ForbiddenRequest):
        run(scripted, behave, use)
    assert requested == []
    run(scripted, behave, use, client_reports=True)
    assert requested == [
        (307, {"clientId": "c", "consumerGroup": "g", "jstackEnable": "false"}),
        (223, {"clientAddr": "c", "group": "g", "topic": "T"}),
        (307, {"clientId": "c", "consumerGroup": "g", "jstackEnable": "true"}),
    ]


def test_a_counter_that_does_not_exist_is_no_failure(scripted):
    remarks = [f"The stats <TOPIC_PUT_NUMS> <{'T' * 400}> not exist", "something broke"]

    async def behave(reader, writer):
        for remark in remarks:
            writer.write(respond(await next_opaque(reader), code=1, remark=remark))
        await reader.read()

    async def use(client, endpoint):
        assert (
            await deep_requests.broker_stats(client, endpoint, "TOPIC_PUT_NUMS", "T" * 400) is None
        )
        with pytest.raises(ResponseError, match="something broke"):
            await deep_requests.broker_stats(client, endpoint, "TOPIC_PUT_NUMS", "T")

    run(scripted, behave, use)


# Matching ----------------------------------------------------------------------------------------


def test_disordered_duplicate_and_unknown_frames(scripted):
    async def behave(reader, writer):
        opaques = [await next_opaque(reader) for _ in range(5)]
        for opaque in reversed(opaques):
            writer.write(respond(opaque, b"no", flag=0))  # a request that the broker sends
            writer.write(respond(opaque, b"%d" % opaque))
            writer.write(respond(opaque, b"again"))
            writer.write(respond(opaque + 1000, b"unknown"))
        await reader.read()

    async def use(client, endpoint):
        frames = await asyncio.gather(*(client.call(endpoint, REQUEST) for _ in range(5)))
        assert [frame.body for frame in frames] == [b"%d" % frame.opaque for frame in frames]
        assert len({frame.opaque for frame in frames}) == 5
        assert client.requests == 5 and client.bytes > 5 * 100

    run(scripted, behave, use)


def test_no_more_in_flight_than_allowed(scripted):
    most = 0

    async def behave(reader, writer):
        nonlocal most
        waiting = []
        for _ in range(12):
            waiting.append(await next_opaque(reader))
            most = max(most, len(waiting))
            if len(waiting) == 3:
                with pytest.raises(TimeoutError):
                    await asyncio.wait_for(reader.read(1), 0.05)
                writer.write(b"".join(respond(opaque) for opaque in waiting))
                waiting = []
        await reader.read()

    async def use(client, endpoint):
        await asyncio.gather(*(client.call(endpoint, REQUEST) for _ in range(12)))

    run(scripted, behave, use, in_flight=3)
    assert most == 3


def test_a_broken_connection_is_replaced(scripted):
    async def one_response(reader, writer):
        writer.write(respond(await next_opaque(reader), b"hello"))
        await next_opaque(reader)  # and close in the middle of the second

    async def use(client, endpoint):
        assert (await client.call(endpoint, REQUEST)).body == b"hello"
        with pytest.raises(ConnectionLostError, match="broke before the response"):
            await client.call(endpoint, REQUEST)
        assert (await client.call(endpoint, REQUEST)).body == b"hello"

    run(scripted, one_response, use)


def test_a_connection_that_keeps_breaking_is_given_up(scripted):
    connections = 0

    async def one_response(reader, writer):
        nonlocal connections
        connections += 1
        writer.write(respond(await next_opaque(reader)))
        await next_opaque(reader)

    async def use(client, endpoint):
        for _ in range(20):
            last = (await failures(client, endpoint))[0]
        assert isinstance(last, ConnectError) and "keeps breaking" in str(last)

    run(scripted, one_response, use)
    assert connections == 4


def test_a_closed_client_connects_no_more(scripted):
    """A mistake in one reader ends a snapshot, while the tasks of other readers go on."""
    connections = []

    async def behave(reader, writer):
        connections.append(writer)
        await reader.read()

    async def use(client, endpoint):
        await client.close()
        with pytest.raises(RequestTimeoutError, match="no time left"):
            await client.call(endpoint, REQUEST)
        assert connections == []

    run(scripted, behave, use, request_timeout=0.2)


def test_closing_fails_pending_requests(scripted):
    async def silence(reader, writer):
        await reader.read()

    async def use(client, endpoint):
        pending = asyncio.create_task(client.call(endpoint, REQUEST))
        await asyncio.sleep(0.05)
        await client.close()
        with pytest.raises(ConnectionLostError, match="closed"):
            await pending

    run(scripted, silence, use)


# Failing -----------------------------------------------------------------------------------------


def test_response_code_and_remark(scripted):
    async def refuse(reader, writer):
        writer.write(respond(await next_opaque(reader), code=22, remark="no\nsuch"))
        await reader.read()

    async def use(client, endpoint):
        with pytest.raises(ResponseError) as caught:
            await admin.topic_stats(client, endpoint, "T")
        assert caught.value.code == 22
        assert str(caught.value) == f"{endpoint}: GET_TOPIC_STATS_INFO T: QUERY_NOT_FOUND no such"

    run(scripted, refuse, use)


@pytest.mark.parametrize(
    "body",
    [b"", b"{", b"[]", b"{}", b'{"offsetTable":[]}', b'{"offsetTable":{"a":{}}}', b"\xff",
     b'{"offsetTable":{{"queueId":1}:{"maxOffset":"9","minOffset":0}}}'],
)  # fmt: skip
def test_a_body_of_another_shape(scripted, body):
    async def behave(reader, writer):
        writer.write(respond(await next_opaque(reader), body))
        await reader.read()

    async def use(client, endpoint):
        with pytest.raises(BadResponseError, match="GET_TOPIC_STATS_INFO T: unreadable response"):
            await admin.topic_stats(client, endpoint, "T")

    run(scripted, behave, use)


@pytest.mark.parametrize(
    "greeting",
    [
        b"HTTP/1.1 400 Bad Request\r\n\r\n",
        b"SSH-2.0-OpenSSH_9.2\r\n",
        struct.pack(">i", MAX_FRAME_BYTES + 1),
        b"\x00" * 64,
        struct.pack(">ii", 8, 4) + b"junk",
    ],
    ids=["http", "ssh", "absurd length", "zeros", "garbage header"],
)
def test_something_else_than_rocketmq(scripted, greeting):
    async def behave(reader, writer):
        await reader.read(1)
        writer.write(greeting)
        await reader.read()

    async def use(client, endpoint):
        entries = await failures(client, endpoint, 100)
        assert all(isinstance(error, NotRocketMQError) for error in entries)
        assert all("\n" not in str(error) for error in entries)
        assert client.requests < 100  # what waited its turn was never sent

    run(scripted, behave, use)


def test_closed_without_a_response(scripted):
    async def behave(reader, writer):
        await reader.read(1)

    async def use(client, endpoint):
        (error,) = await failures(client, endpoint)
        assert isinstance(error, NotRocketMQError) and "without a response" in str(error)

    run(scripted, behave, use)


def test_a_truncated_frame(scripted):
    async def behave(reader, writer):
        writer.write(respond(await next_opaque(reader), b"first"))
        writer.write(respond(await next_opaque(reader), b"second")[:-3])

    async def use(client, endpoint):
        assert (await client.call(endpoint, REQUEST)).body == b"first"
        with pytest.raises(ConnectionLostError):
            await client.call(endpoint, REQUEST)

    run(scripted, behave, use)


def test_garbage_after_good_responses(scripted):
    async def behave(reader, writer):
        writer.write(respond(await next_opaque(reader), b"first"))
        await next_opaque(reader)
        writer.write(b"\xff" * 100)
        await reader.read()

    async def use(client, endpoint):
        await client.call(endpoint, REQUEST)
        with pytest.raises(BadResponseError, match="broken frame"):
            await client.call(endpoint, REQUEST)

    run(scripted, behave, use)


async def silence(reader, writer):
    await reader.read()


async def one_byte_at_a_time(reader, writer):
    for byte in respond(await next_opaque(reader), b"x" * 1000):
        writer.write(bytes([byte]))
        await asyncio.sleep(0.05)


@pytest.mark.parametrize("behaviour", [silence, one_byte_at_a_time])
def test_an_unreachable_endpoint_costs_one_timeout(scripted, behaviour):
    async def use(client, endpoint):
        entries = await failures(client, endpoint, 50)
        assert all(isinstance(error, NoResponseError) for error in entries)
        assert client.requests == 4
        sent = client.requests
        assert isinstance((await failures(client, endpoint))[0], NoResponseError)
        assert client.requests == sent

    run(scripted, behaviour, use, request_timeout=0.3, in_flight=4)


def test_a_response_that_is_not_whole_in_time_is_described(scripted):
    """A large one over a slow network is no broker that hangs: a longer timeout helps."""

    async def behave(reader, writer):
        writer.write(respond(await next_opaque(reader)))
        writer.write(respond(await next_opaque(reader), b"x" * 1000)[:600])
        await reader.read()

    async def use(client, endpoint):
        await client.call(endpoint, REQUEST, timeout=5)
        (error,) = await failures(client, endpoint)
        assert "s, 600 bytes of one came: request_timeout may be too short" in error.reason

    run(scripted, behave, use, request_timeout=0.3)


@pytest.mark.slow
def test_one_slow_response_keeps_the_endpoint_reachable(scripted):
    async def behave(reader, writer):
        slow = await next_opaque(reader)
        while True:
            opaque = await next_opaque(reader)
            if opaque != slow:
                writer.write(respond(opaque))

    async def use(client, endpoint):
        slow = asyncio.create_task(client.call(endpoint, REQUEST))
        await asyncio.sleep(0.1)
        await client.call(endpoint, REQUEST, timeout=5)
        with pytest.raises(RequestTimeoutError):
            await slow
        await client.call(endpoint, REQUEST, timeout=5)

    run(scripted, behave, use, request_timeout=0.4)


@pytest.mark.slow
def test_the_total_deadline_covers_many_slow_responses(scripted):
    async def behave(reader, writer):
        while True:
            opaque = await next_opaque(reader)
            await asyncio.sleep(0.2)
            writer.write(respond(opaque))

    async def use(client, endpoint):
        entries = await failures(client, endpoint, 50)
        responded = [frame for frame in entries if not isinstance(frame, RemotingError)]
        assert 0 < len(responded) < 50
        assert any("no time left" in str(error) for error in entries)

    run(scripted, behave, use, total_timeout=1.0, in_flight=1)


def test_nothing_listens_there():
    async def main():
        async with RemotingClient() as client:
            entries = await failures(client, "127.0.0.1:1", 10)
            assert all(isinstance(error, RefusedError) for error in entries)
            expected = "127.0.0.1:1: GET_BROKER_RUNTIME_INFO 0: connection refused, nothing listens"
            assert str(entries[0]).startswith(expected)

    asyncio.run(main())


@pytest.mark.parametrize(
    ("endpoint", "reason"),
    [
        ("nowhere.invalid:9876", "not known"),
        ("localhost", "not HOST:PORT"),
        ("localhost:http", "not HOST:PORT"),
        (":9876", "not HOST:PORT"),
        ("localhost:99999", "not HOST:PORT"),
        ("a:1;b:2", "not HOST:PORT"),
        ("a:1,b:2", "not HOST:PORT"),
        ("http://a:1", "not HOST:PORT"),
        ("", "not HOST:PORT"),
    ],
)
def test_an_invalid_address(endpoint, reason):
    async def main():
        async with RemotingClient() as client:
            (error,) = await failures(client, endpoint)
            assert isinstance(error, ConnectError) and reason in str(error)

    asyncio.run(main())


def test_endpoints():
    assert split_endpoint("[::1]:9876") == ("::1", 9876)
    assert split_endpoint(" host:1 ") == ("host", 1)


def test_a_host_by_name(scripted):
    async def behave(reader, writer):
        writer.write(respond(await next_opaque(reader), b"hello"))
        await reader.read()

    async def use(client, endpoint):
        _, port = split_endpoint(endpoint)
        assert (await client.call(f"localhost:{port}", REQUEST)).body == b"hello"

    run(scripted, behave, use)


@pytest.mark.slow
def test_an_address_that_drops_packets_leaves_time_for_the_next(scripted, monkeypatch):
    """The kernel drops connections to a listener whose backlog is full."""

    async def behave(reader, writer):
        writer.write(respond(await next_opaque(reader), b"hello"))
        await reader.read()

    async def resolved(self, owner, host, port):
        return ["127.0.0.2", "127.0.0.1"]

    monkeypatch.setattr("tidemark.rocketmq.wire.addresses.Resolver.addresses", resolved)

    async def use(client, endpoint):
        _, port = split_endpoint(endpoint)
        with socket.socket() as deaf, socket.socket() as first, socket.socket() as second:
            deaf.bind(("127.0.0.2", port))
            deaf.listen(0)
            for waiting in (first, second):
                waiting.setblocking(False)
                waiting.connect_ex(("127.0.0.2", port))
            assert (await client.call(f"host:{port}", REQUEST)).body == b"hello"

    run(scripted, behave, use, connect_timeout=1.0)
