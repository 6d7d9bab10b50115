"""Bounds on responses of name servers and brokers: each excess is a problem that names one."""

import asyncio
import json
from datetime import UTC, datetime

import pytest

from tests.support.cluster_history import Minute, snapshot
from tidemark.collection.memory import MOST_REMEMBERED, Memory
from tidemark.host.state import FileState
from tidemark.rocketmq import collector
from tidemark.rocketmq.admin.broker_reports import decode_broker_config
from tidemark.rocketmq.admin.responses import (
    MAX_LISTED,
    MAX_TOPICS,
    BrokerGroup,
    ClusterInfo,
    Connection,
    ConsumerConnection,
    TopicConfig,
    decode_broker_cluster_info,
    decode_consumer_connection,
    decode_consumer_offsets,
    decode_subscription_groups,
    decode_topic_configs,
)
from tidemark.rocketmq.collector import leave_out_large_groups
from tidemark.rocketmq.names import CONNECTIONS
from tidemark.rocketmq.records import Problem, Subscription
from tidemark.rocketmq.snapshot.broker_reading import MOST_NAMED, BrokerReading
from tidemark.rocketmq.snapshot.discovery import expected_readings
from tidemark.rocketmq.snapshot.problems import (
    LONGEST_MESSAGE,
    MOST_PROBLEMS,
    NAMED_DETAILS,
    Problems,
)
from tidemark.rocketmq.snapshot.target import ClusterTarget
from tidemark.rocketmq.typed_values import LONGEST_NAME
from tidemark.rocketmq.wire.addresses import split_endpoint
from tidemark.rocketmq.wire.codes import ResponseError
from tidemark.rocketmq.wire.frame import MAX_HEADER_BYTES, FrameError, take_frames
from tidemark.rocketmq.wire.pacing import MAX_VALUES, MAX_VALUES_OF_BODY, Allowance, most_values
from tidemark.settings.clusters import configured
from tidemark.settings.home import Home

START = datetime(2026, 11, 19, 12, tzinfo=UTC)

LONG = "n" * (LONGEST_NAME + 1)
TOPIC = {"readQueueNums": 1, "writeQueueNums": 1, "perm": 6}


def body(value):
    return json.dumps(value).encode()


@pytest.mark.parametrize(
    ("decode", "name"),
    [
        (decode_topic_configs, {"topicConfigTable": {LONG: TOPIC}}),
        (decode_subscription_groups, {"subscriptionGroupTable": {LONG: {}}}),
        (decode_consumer_offsets, {"offsetTable": {f"T@{LONG}": {}}}),
        (decode_consumer_connection, {"connectionSet": [{"clientId": LONG}]}),
        (decode_consumer_connection, {"connectionSet": [], "subscriptionTable": {LONG: {}}}),
        (
            decode_broker_cluster_info,
            {"brokerAddrTable": {}, "clusterAddrTable": {LONG: []}},
        ),
    ],
)
def test_a_name_that_no_row_can_hold_is_refused(decode, name):
    with pytest.raises(ValueError, match=f"a name of {len(LONG)}|name of {len(LONG) + 2}"):
        decode(body(name))


def test_a_configured_name_that_no_row_can_hold_is_refused():
    with pytest.raises(ValueError, match="a name of"):
        decode_broker_config(f"brokerName={LONG}\n".encode())


def test_topics_and_groups_of_a_broker_are_counted():
    for decode, table in (
        (decode_topic_configs, "topicConfigTable"),
        (decode_subscription_groups, "subscriptionGroupTable"),
    ):
        names = ",".join(f'"{number}":{{}}' for number in range(MAX_TOPICS + 1))
        with pytest.raises(ValueError, match=r"100001 (topics|groups) \(limit 100000\)"):
            decode(f'{{"{table}":{{{names}}}}}'.encode())


@pytest.mark.parametrize("offset", ["0:5", "0: 5", '"0":5'])
def test_groups_on_topics_of_a_broker_are_counted(offset):
    entries = ",".join(f'"T{number}@g":{{{offset}}}' for number in range(200_001))
    with pytest.raises((ValueError, TypeError), match=r"200001 groups on topics|too large"):
        decode_consumer_offsets(f'{{"offsetTable":{{{entries}}}}}'.encode())


def test_addresses_of_a_name_server_are_counted():
    addresses = {str(number): "h:1" for number in range(MAX_LISTED + 1)}
    group = {"brokerName": "a", "cluster": "c", "brokerAddrs": addresses}
    values = {"brokerAddrTable": {"a": group}, "clusterAddrTable": {}}
    with pytest.raises(ValueError, match="20001 broker addresses"):
        decode_broker_cluster_info(body(values))


def test_many_clusters_of_many_brokers_take_no_quadratic_time():
    """With one search of each list by each broker this would take hours."""
    names = [f"b{number}" for number in range(10_000)]
    groups = {
        name: BrokerGroup(broker=name, cluster="c", addresses={0: f"{name}:1"}) for name in names
    }
    info = ClusterInfo(groups, {f"c{number}": names for number in range(20)})
    problems = Problems()
    target = ClusterTarget(name_servers=("n:1",), cluster="c7", max_brokers=10)
    readings = expected_readings(info, "n:1", target, problems)
    assert len(readings) == 10_000
    assert "9990 are left out (max_brokers" in str(problems.rows()) or problems.left_out


def test_a_header_of_a_frame_is_bounded():
    header = b" " * (MAX_HEADER_BYTES + 1)
    frame = (4 + len(header)).to_bytes(4, "big") + len(header).to_bytes(4, "big")
    with pytest.raises(FrameError, match="limit 262144"):
        take_frames(bytearray(frame + header[:10]))


@pytest.mark.parametrize("port", ["9" * 5_000, "99999", "0"])
def test_an_endpoint_of_thousands_of_digits_is_none(port):
    with pytest.raises(ValueError, match="not HOST:PORT"):
        split_endpoint(f"h:{port}")


def test_values_are_counted_before_a_body_is_read():
    assert most_values(b'{"a":[1,2,{"b":{0:1}}],"c":[]}') >= 9
    allowance = Allowance()
    assert allowance.refuse_large(b"[" * 1000) is None and allowance.values == 0
    assert "limit 3000000" in (allowance.refuse_large(b"," * (MAX_VALUES_OF_BODY + 1)) or "")
    taken = 0
    while (reason := allowance.refuse_large(b"," * 2_000_000)) is None:
        taken += 2_000_001
    assert taken == allowance.values <= MAX_VALUES and str(MAX_VALUES) in reason


def test_problems_are_bounded_and_those_left_out_are_counted():
    problems = Problems()
    for number in range(MOST_PROBLEMS + 7):
        problems.add(
            Problem(endpoint="h:1", operation=f"op {number}", code=None, message="m" * 10_000)
        )
    first, *rows = problems.rows()
    assert (len(rows), problems.left_out) == (MOST_PROBLEMS, 7)
    assert first.message.startswith("7 problems more than the 2000 that a snapshot names")
    assert max(len(row.message) for row in rows) == LONGEST_MESSAGE


def test_details_that_a_broker_refuses_are_no_reason_to_know_nothing():
    problems = Problems()
    for number in range(3 * MOST_PROBLEMS):
        with problems:
            raise ResponseError(
                "h:1", f"QUERY_CONSUME_TIME_SPAN group-{number} topic", 206, "not online"
            )
    with problems:
        raise ResponseError("h:2", "QUERY_CONSUME_TIME_SPAN group topic", 206, "not online")
    *named, last, other = problems.rows()
    assert (len(named), problems.left_out, other.endpoint) == (NAMED_DETAILS, 0, "h:2")
    assert f"({3 * MOST_PROBLEMS - NAMED_DETAILS - 1} more requests failed)" in last.message


def test_topics_with_too_many_queues_are_named_or_counted():
    reading = BrokerReading(broker="a", broker_id=0, address="h:1", is_master=True)
    reading.topics = {
        f"T{it:03}": TopicConfig(topic=f"T{it:03}", read_queues=10**9, write_queues=1, perm=6)
        for it in range(100)
    }
    reading.leave_out_oversized_topics()
    messages = [message for _, message in reading.invalid_offsets()]
    assert len(messages) == MOST_NAMED + 1 and messages[-1].startswith(
        "80 more topics are left out"
    )


def test_groups_of_too_many_rows_are_left_out_and_named(monkeypatch):
    monkeypatch.setattr(collector, "MOST_QUEUES", 1_000)
    reading = BrokerReading(broker="a", broker_id=0, address="h:1", is_master=True)
    reading.topics = {
        "T": TopicConfig(topic="T", read_queues=900, write_queues=900, perm=6),
        "U": TopicConfig(topic="U", read_queues=4, write_queues=4, perm=6),
    }

    def online(topic):
        member = Connection(client_id="c", client_address=None, language="JAVA", version=None)
        subscription = Subscription(topic=topic, expression_type="TAG", expression="*", tags=[])
        return {
            "a": ConsumerConnection(
                connections=[member],
                consume_type=None,
                message_model="CLUSTERING",
                consume_from_where=None,
                subscriptions={topic: subscription},
            )
        }

    groups = {"big": online("T"), "large": online("T"), "small": online("U")}
    problems = Problems()
    left = leave_out_large_groups(groups, [reading], problems)
    assert left.keys() == {"big", "small"}
    (problem,) = problems.rows()
    assert (problem.endpoint, problem.operation) == ("h:1", f"{CONNECTIONS}large")
    assert "1000 queues" in problem.message


def test_the_memory_of_a_cluster_is_bounded(tmp_path, monkeypatch):
    monkeypatch.setattr("tidemark.collection.memory.MOST_REMEMBERED", 1)
    state = FileState(Home.of(tmp_path))
    Memory.of(state, "orders").learn(snapshot(START, Minute(at=0)))
    assert len(Memory.of(state, "orders").brokers) == 1 < MOST_REMEMBERED


def test_a_hostile_cluster_of_the_same_file_is_no_kin(tmp_path):
    """Its name server lists a broker of the other one beside addresses of its own."""
    text = "clusters:\n- {name: honest, namesrv: 'h:1'}\n- {name: hostile, namesrv: 'e:1'}\n"
    text += "- {name: again, namesrv: ['h:1', 'h:2']}\n"
    (tmp_path / "clusters.yaml").write_text(text)
    honest, _, again = configured(Home.of(tmp_path))
    assert (honest.others, again.others) == (("hostile",), ("hostile",))
    state = FileState(Home.of(tmp_path))
    for key in ("hostile", "again"):
        Memory.of(state, key).learn(snapshot(START, Minute(at=0)))
    memory = Memory.of(state, "honest")
    assert len(memory.kin(START)) == 2
    assert len(memory.kin(START, honest.others)) == 1


def test_nothing_is_decoded_after_the_deadline(scripted):
    from tests.support.wire_servers import next_opaque, respond
    from tidemark.rocketmq.admin.round_trip import request
    from tidemark.rocketmq.wire.client import RemotingClient
    from tidemark.rocketmq.wire.codes import RequestCode, RequestTimeoutError

    decoded = []

    async def behave(reader, writer):
        writer.write(respond(await next_opaque(reader), b"{}"))
        await reader.read()

    async def main():
        async with scripted(behave) as endpoint, RemotingClient(total_timeout=30) as client:
            real = client._send_with_retries

            async def late(*arguments):
                frame = await real(*arguments)
                client._deadline = asyncio.get_running_loop().time()
                return frame

            client._send_with_retries = late
            with pytest.raises(RequestTimeoutError, match="no time left"):
                await request(client, endpoint, RequestCode.GET_BROKER_CONFIG, decoded.append)

    asyncio.run(main())
    assert decoded == []
