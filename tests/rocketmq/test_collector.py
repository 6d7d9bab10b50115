"""The addresses that a snapshot expects, and its result when none responds."""

import asyncio
import json
import struct
import subprocess
import sys

import pytest

from rocketmq.admin.name_server import BrokerGroup, ClusterInfo
from rocketmq.collector import collect, collect_snapshot
from rocketmq.snapshot.discovery import expected_readings
from rocketmq.snapshot.problems import Problems
from rocketmq.snapshot.target import ClusterTarget

A = BrokerGroup("broker-a", "one", {0: "a:0", 1: "a:1"})
B = BrokerGroup("broker-b", "two", {0: "b:0"})
HEADLESS = BrokerGroup("broker-a", "one", {1: "a:1", 2: "a:2"})
ACTING = BrokerGroup("broker-a", "one", {1: "a:1", 2: "a:2"}, acting_master=True)


def expect(*groups, **target):
    """(broker, id, address, is master) of who should answer, and the problems found so far."""
    problems = Problems()
    clusters = {}
    for group in groups:
        clusters.setdefault(group.cluster, []).append(group.broker)
    info = ClusterInfo({group.broker: group for group in groups}, clusters)
    readings = expected_readings(info, "ns:1", ClusterTarget(("ns:1",), **target), problems)
    found = [(r.broker, r.broker_id, r.address, r.is_master) for r in readings]
    return found, [problem.message for problem in problems.rows()]


def test_every_listed_address():
    expected = [
        ("broker-a", 0, "a:0", True),
        ("broker-a", 1, "a:1", False),
        ("broker-b", 0, "b:0", True),
    ]
    assert expect(A, B) == (expected, [])


def test_one_cluster_of_several():
    assert expect(A, B, cluster="two") == ([("broker-b", 0, "b:0", True)], [])
    assert expect(A, B, cluster="three") == ([], ["no cluster 'three' here, only one, two"])


def test_a_name_server_without_brokers():
    assert expect() == ([], ["the name server lists no broker"])


def test_a_gone_broker_is_expected_at_its_old_address():
    found, problems = expect(B, remembered=(("broker-a", 0, "a:0"), ("broker-a", 1, "a:1")))
    assert found[1:] == [("broker-a", 0, "a:0", True), ("broker-a", 1, "a:1", False)]
    assert problems == []


def test_a_moved_broker_is_expected_at_its_new_address():
    assert expect(B, remembered=(("broker-b", 0, "b:old"),))[0] == [("broker-b", 0, "b:0", True)]


PROMOTED = BrokerGroup("broker-a", "one", {0: "a:2"})
"""A controller made broker-a's slave its master, with the master's id."""

BEFORE = (("broker-a", 0, "a:1"), ("broker-a", 2, "a:2"))


def test_after_a_promotion_the_dead_master_is_expected():
    """Under the id that is the dead one's own in this group: 2 was the other's."""
    found, problems = expect(PROMOTED, remembered=BEFORE)
    assert found == [("broker-a", 0, "a:2", True), ("broker-a", 1, "a:1", False)]
    assert problems == []
    assert expect(PROMOTED, remembered=(("broker-a", 0, "a:2"), ("broker-a", 1, "a:1")))[0] == found


def test_after_a_promotion_the_old_master_may_move():
    back = BrokerGroup("broker-a", "one", {0: "a:2", 1: "a:9"})
    found = expect(back, remembered=BEFORE)[0]
    assert found == [("broker-a", 0, "a:2", True), ("broker-a", 1, "a:9", False)]


def test_swapped_members_are_expected_once_each():
    swapped = BrokerGroup("broker-a", "one", {0: "a:2", 1: "a:1"})
    found = expect(swapped, remembered=BEFORE)[0]
    assert found == [("broker-a", 0, "a:2", True), ("broker-a", 1, "a:1", False)]


def test_a_renamed_broker_gets_each_request_once(scripted):
    """Its old name is missed, for what stood under it stands there no more."""
    renamed = (("broker-z", 0, "b:0"),)
    assert expect(B, remembered=renamed)[0] == [
        ("broker-b", 0, "b:0", True),
        ("broker-z", 0, "b:0", True),
    ]
    requested = []
    serve = scripted_broker({}, requested)

    async def main():
        async with scripted(serve) as at:
            alone = await collect(ClusterTarget((at,)))
            first = sorted(requested)
            requested.clear()
            found = await collect(ClusterTarget((at,), remembered=(("z", 0, at),)))
            assert sorted(requested) == first
            return alone, found

    alone, found = asyncio.run(main())
    gone = "z 0 is gone, b has its address now"
    assert [it.message for it in found.problems] == [it.message for it in alone.problems] + [gone]
    assert [(it.broker, it.version) for it in found.brokers] == [("b", None), ("z", None)]


def test_a_static_topic_is_a_problem_with_unknown_offsets(scripted, recorded):
    """Its clients commit on queues 1 and 3; what the broker counts are its queues 0 and 1."""
    member = {"clientId": "c", "language": "JAVA", "version": 479}
    group = {"connectionSet": [member], "messageModel": "CLUSTERING"}
    group["subscriptionTable"] = {"static_orders": {"topic": "static_orders", "subString": "*"}}
    bodies = {
        21: recorded("5.3.3", "21_topic_config_static_m.body"),
        26: b"brokerName=b\n",
        28: b'{"table":{"brokerVersionDesc":"V5_3_3"}}',
        43: b'{"offsetTable":{"static_orders@g":{1:5}}}',
        201: b'{"subscriptionGroupTable":{}}',
        202: b'{"offsetTable":{}}',
        203: json.dumps(group).encode(),
        402: b'{"messageRequestModeMap":{}}',
    }
    requested = []
    serve = scripted_broker(bodies, requested)

    async def main():
        async with scripted(serve) as at:
            return await collect(ClusterTarget((at,)))

    taken = asyncio.run(main())
    assert "static_orders" not in {topic for _, topic in requested}
    (problem,) = taken.problems
    assert problem.operation == "GET_TOPIC_STATS_INFO static_orders"
    assert problem.message.startswith("a static topic")
    rows = [(row.queue_id, row.consumer_offset, row.pull_offset) for row in taken.consumer_offsets]
    assert rows == [(1, 5, None), (3, None, None)]
    queues = [
        (row.queue_id, row.min_offset, row.max_offset)
        for row in taken.queue_offsets
        if row.topic == "static_orders"
    ]
    assert queues == [(1, None, None), (3, None, None)]


def scripted_broker(bodies, requested):
    """A broker and name server in one; it responds ``{}`` where ``bodies`` has no request code.

    Each request, (code, topic), is appended to ``requested``.
    """

    async def serve(reader, writer):
        while True:
            frame = await reader.readexactly(int.from_bytes(await reader.readexactly(4), "big"))
            request = json.loads(frame[4:])
            requested.append((request["code"], request.get("extFields", {}).get("topic", "")))
            at = f"127.0.0.1:{writer.get_extra_info('sockname')[1]}"
            group = {"brokerAddrs": {"0": at}, "brokerName": "b", "cluster": "one"}
            info = {"brokerAddrTable": {"b": group}, "clusterAddrTable": {"one": ["b"]}}
            listing = {106: json.dumps(info).encode()}
            body = (bodies | listing).get(request["code"], b"{}")
            header = json.dumps({"code": 0, "flag": 1, "opaque": request["opaque"]}).encode()
            writer.write(struct.pack(">ii", 4 + len(header) + len(body), len(header)))
            writer.write(header + body)

    return serve


def test_a_slave_does_not_replace_a_dead_master():
    found, problems = expect(HEADLESS)
    assert [is_master for *_, is_master in found] == [False, False]
    assert problems == ["broker-a has no master, only slaves are registered"]


def test_an_acting_master_is_read():
    found, problems = expect(ACTING, remembered=(("broker-a", 0, "a:0"),))
    assert found == [
        ("broker-a", 1, "a:1", True),
        ("broker-a", 2, "a:2", False),
        ("broker-a", 0, "a:0", False),
    ]
    assert problems == []


@pytest.mark.parametrize(
    ("endpoint", "reason"),
    [
        ("127.0.0.1:1", "connection refused"),
        ("nowhere.invalid:9876", "not known"),
        ("no port", "not HOST:PORT"),
    ],
)
def test_no_name_server(endpoint, reason):
    target = ClusterTarget((endpoint,), remembered=(("broker-a", 0, "a:0"),))
    snapshot = collect_snapshot(target)
    assert (snapshot.status, snapshot.cluster) == ("FAILED", endpoint)
    (problem,) = snapshot.problems
    assert (problem.endpoint, problem.operation) == (endpoint, "GET_BROKER_CLUSTER_INFO")
    assert reason in problem.message and problem.code is None
    assert (snapshot.brokers_expected, snapshot.brokers_answered) == (1, 0)
    assert snapshot.finished_at and snapshot.finished_at >= snapshot.observed_at


def test_every_name_server_is_tried():
    snapshot = collect_snapshot(ClusterTarget(("127.0.0.1:1", "127.0.0.1:2"), name="mine"))
    assert [problem.endpoint for problem in snapshot.problems] == ["127.0.0.1:1", "127.0.0.1:2"]
    assert (snapshot.status, snapshot.cluster) == ("FAILED", "mine")


def test_an_unreachable_name_server(scripted):
    async def silence(reader, writer):
        await reader.read()

    async def main():
        async with scripted(silence) as endpoint:
            return await collect(ClusterTarget((endpoint,), request_timeout=0.2))

    snapshot = asyncio.run(main())
    assert snapshot.status == "FAILED"
    assert snapshot.problems[0].message == "no response within 0.2 s"


def test_an_unreachable_name_server_leaves_time_for_the_next(scripted):
    requested = []

    async def silence(reader, writer):
        await reader.read()

    async def empty(reader, writer):
        requested.append(await reader.read(1))
        writer.close()

    async def main():
        async with scripted(silence) as first, scripted(empty) as second:
            return await collect(ClusterTarget((first, second), total_timeout=0.9))

    snapshot = asyncio.run(main())
    assert requested == [b"\0"]
    assert [problem.message for problem in snapshot.problems] == [
        "no response within 0.3 s",
        "closed the connection without a response, does it want TLS?",
    ]


def test_importing_the_collector_is_light():
    heavy = ["pandas", "pyarrow", "pydantic", "rich", "pyspark", "dagster", "numpy", "sqlalchemy"]
    code = f"import sys, rocketmq.collector; print([m for m in {heavy} if m in sys.modules])"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"
