"""Servers of the protocol that respond as a test wants."""

import asyncio
import json
import struct

import pytest

TOPICS = [f"T{number}" for number in range(6)]


TOPICS_OF, CONFIG, RUNTIME, OFFSETS, GROUPS, TOPIC_STATS, MEMBERS = 21, 26, 28, 43, 201, 202, 203


CONSUME_STATS = 208  # requested where the version is unknown


CLOCK, MAX_OFFSET, MIN_OFFSET = 303, 30, 31


def body_of(broker, code, fields):
    """The response of an honest broker; numbers differ by topic, so no response fits another."""
    if code == TOPIC_STATS:
        topic = fields["topic"]
        newest = 100 + TOPICS.index(topic)
        rows = (
            f'{{"brokerName":"{broker}","queueId":{queue},"topic":"{topic}"}}:'
            f'{{"lastUpdateTimestamp":1795252923864,"maxOffset":{newest},"minOffset":{queue}}}'
            for queue in range(2)
        )
        return f'{{"offsetTable":{{{",".join(rows)}}},"topicPutTps":0.5}}'
    if code == MEMBERS:
        member = {"clientId": f"c-{broker}", "clientAddr": None, "language": "JAVA", "version": 479}
        subscription = {"topic": "T0", "subString": "*", "tagsSet": ["a"], "expressionType": "TAG"}
        group = {"connectionSet": [member], "subscriptionTable": {"T0": subscription}}
        return json.dumps(
            group | {"messageModel": "CLUSTERING", "consumeType": "CONSUME_PASSIVELY"}
        )
    if code == OFFSETS:
        tables = ",".join(f'"{topic}@g":{{0:5,1:7}}' for topic in TOPICS)
        return f'{{"offsetTable":{{{tables}}}}}'
    if code == CONFIG:
        return f"brokerName={broker}\nfileReservedTime=72\n"
    topic = {"readQueueNums": 2, "writeQueueNums": 2, "perm": 6}
    return json.dumps(
        {
            TOPICS_OF: {"topicConfigTable": dict.fromkeys(TOPICS, topic)},
            GROUPS: {"subscriptionGroupTable": {"g": {"consumeEnable": True, "brokerId": 0}}},
            CONSUME_STATS: {"offsetTable": {}},
            CLOCK: {"consumeTimeSpanSet": []},
            MAX_OFFSET: {},
            MIN_OFFSET: {},
            RUNTIME: {"table": {"brokerVersionDesc": "V4_9_7", "putTps": "1.0 2.0"}},
        }[code]
    )


def frame(opaque, body=b"", header=None, **more):
    if header is None:
        header = json.dumps({"code": 0, "flag": 1, "opaque": opaque} | more).encode()
    return struct.pack(">ii", 4 + len(header) + len(body), len(header)) + header + body


def binary(opaque, body=b"", remark=b""):
    header = struct.pack(">hbhiii", 0, 0, 479, opaque, 1, len(remark)) + remark + b"\0\0\0\0"
    return struct.pack(">ii", 4 + len(header) + len(body), 1 << 24 | len(header)) + header + body


async def serve(broker, wrong, reader, writer):
    """Answer honestly but where ``wrong`` knows the code: it is given what to answer instead."""
    while True:
        (total,) = struct.unpack(">i", await reader.readexactly(4))
        content = await reader.readexactly(total)
        request = json.loads(content[4 : 4 + int.from_bytes(content[1:4], "big")])
        code, opaque = request["code"], request["opaque"]
        body = body_of(broker, code, request.get("extFields")).encode()
        if code in wrong:
            await wrong[code](writer, opaque, body)
        else:
            writer.write(frame(opaque, body))


async def list_brokers(addresses, reader, writer):
    content = await reader.readexactly(int.from_bytes(await reader.readexactly(4), "big"))
    opaque = json.loads(content[4 : 4 + int.from_bytes(content[1:4], "big")])["opaque"]
    groups = {
        name: {"brokerName": name, "cluster": "c", "brokerAddrs": {"0": address}}
        for name, address in addresses.items()
    }
    body = {"brokerAddrTable": groups, "clusterAddrTable": {"c": list(groups)}}
    writer.write(frame(opaque, json.dumps(body).encode()))
    await reader.read()


def replaced(old, new):
    """The body with a part replaced, in an honest frame."""

    async def respond(writer, opaque, body):
        writer.write(frame(opaque, body.replace(old, new) if old else new))

    return respond


def sent(make, close=False):
    """Whatever bytes are made of opaque and body."""

    async def respond(writer, opaque, body):
        writer.write(make(opaque, body))
        if close:
            writer.close()

    return respond


async def silence(writer, opaque, body):
    pass


async def trickle(writer, opaque, body):
    for byte in frame(opaque, body):
        writer.write(bytes([byte]))
        await asyncio.sleep(1)


async def flood(writer, opaque, body):
    """Frames without end that answer nothing."""
    while True:
        writer.write(frame(opaque + 1_000_000, b"x" * 10_000))
        await writer.drain()
        await asyncio.sleep(0.001)


async def one_long_frame(writer, opaque, body):
    """A length that is allowed, and bytes of it for as long as anybody listens."""
    writer.write(struct.pack(">ii", 60_000_000, 100))
    while True:
        writer.write(b" " * 65536)
        await writer.drain()
        await asyncio.sleep(0.01)


DEEP = b'{"offsetTable":' + b"[" * 200_000


HUGE = b"9" * 4000


FAULTS = {
    # the frame
    "truncated frame": (TOPIC_STATS, sent(lambda o, b: frame(o, b)[:-9], close=True)),
    "header cut": (TOPIC_STATS, sent(lambda o, b: frame(o, b)[:20], close=True)),
    "closed": (TOPIC_STATS, sent(lambda o, b: b"", close=True)),
    "absurd length": (TOPIC_STATS, sent(lambda o, b: b"\x7f\xff\xff\xff" + frame(o, b)[4:])),
    "negative length": (TOPIC_STATS, sent(lambda o, b: b"\xff" * 4 + frame(o, b)[4:])),
    "header no JSON": (TOPIC_STATS, sent(lambda o, b: frame(o, b, b"<html></html>"))),
    "header a list": (TOPIC_STATS, sent(lambda o, b: frame(o, b, b"[]"))),
    "header deep": (TOPIC_STATS, sent(lambda o, b: frame(o, b, b"[" * 100_000))),
    "header too long": (TOPIC_STATS, sent(lambda o, b: struct.pack(">ii", 30, 90) + b"{" * 26)),
    "code beyond 32 bits": (TOPIC_STATS, sent(lambda o, b: frame(o, b, code=2**40))),
    "half a surrogate in a remark": (
        TOPIC_STATS,
        sent(lambda o, b: frame(o, b, code=1, remark="\ud800")),
    ),
    "binary header cut": (TOPIC_STATS, sent(lambda o, b: binary(o, b)[:4] + b"\1\0\0\x05" + b)),
    "binary text beyond the header": (
        TOPIC_STATS,
        sent(lambda o, b: binary(o, b).replace(struct.pack(">ii", 1, 0), b"\0\0\0\1\x7f\0\0\0")),
    ),
    "never": (TOPIC_STATS, silence),
    "a byte a second": (TOPIC_STATS, trickle),
    "a flood": (TOPIC_STATS, flood),
    "one long frame": (TOPIC_STATS, one_long_frame),
    # the body
    "empty": (OFFSETS, replaced(b"", b"")),
    "cut": (OFFSETS, sent(lambda o, b: frame(o, b[:-12]))),
    "deep": (OFFSETS, replaced(b"", DEEP)),
    "deep keys": (OFFSETS, replaced(b"", b"{" * 200_000)),
    "a million digits": (OFFSETS, replaced(b"0:5", b"0:" + b"5" * 1_000_000)),
    "offset beyond 64 bits": (OFFSETS, replaced(b'"T3@g":{0:5', b'"T3@g":{0:9223372036854775808')),
    "offset of 4000 digits": (OFFSETS, replaced(b'"T3@g":{0:5', b'"T3@g":{0:' + HUGE)),
    "queue beyond 32 bits": (OFFSETS, replaced(b'"T3@g":{0:5', b'"T3@g":{2147483648:5')),
    "offset a text": (OFFSETS, replaced(b'"T3@g":{0:5', b'"T3@g":{0:"5"')),
    "offset a fraction": (OFFSETS, replaced(b'"T3@g":{0:5', b'"T3@g":{0:5.5')),
    "offset true": (OFFSETS, replaced(b'"T3@g":{0:5', b'"T3@g":{0:true')),
    "offset null": (OFFSETS, replaced(b'"T3@g":{0:5', b'"T3@g":{0:null')),
    "offset NaN": (OFFSETS, replaced(b'"T3@g":{0:5', b'"T3@g":{0:NaN')),
    "queue below 0": (OFFSETS, replaced(b'"T3@g":{0:5', b'"T3@g":{-3:5')),
    "queue a text": (OFFSETS, replaced(b'"T3@g":{0:5', b'"T3@g":{"0":5')),
    "queue twice": (OFFSETS, replaced(b'"T3@g":{0:5', b'"T3@g":{0:5,0:6')),
    "group twice": (OFFSETS, replaced(b'"T3@g"', b'"T2@g"')),
    "reference": (OFFSETS, replaced(b'"T3@g":{0:5,1:7}', b'"T3@g":{"$ref":"$.offsetTable"}')),
    "no UTF-8": (OFFSETS, replaced(b"T3@g", b"T\xff@g")),
    "more after the end": (OFFSETS, sent(lambda o, b: frame(o, b + b"{}"))),
    "topics by number": (TOPICS_OF, replaced(b'"T3":', b"3:")),
    "a billion queues": (
        TOPICS_OF,
        replaced(b'"T3": {"readQueueNums": 2', b'"T3": {"readQueueNums": 1000000000'),
    ),
    "queues beyond 32 bits": (
        TOPICS_OF,
        replaced(b'Nums": 2', b'Nums": 2147483648'),
    ),
    "enabled a text": (GROUPS, replaced(b"true", b'"yes"')),
    "subscriptions a list": (MEMBERS, replaced(b'{"T0":', b'[{"T0":')),
    "tags a text": (MEMBERS, replaced(b'["a"]', b'"abc"')),
    "client without a name": (MEMBERS, replaced(b'"c-b"', b"null")),
    "runtime a list": (RUNTIME, replaced(b'"table": {', b'"table": [{')),
}


UNTIL_THE_TIME_OUT = ("never", "a byte a second", "a flood", "one long frame")


each_fault = pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[pytest.mark.slow] * (name in UNTIL_THE_TIME_OUT))
        for name in FAULTS
    ],
)
