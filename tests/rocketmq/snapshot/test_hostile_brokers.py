"""A whole snapshot of two brokers, one of which sends faulty responses.

Whatever the wrong one does costs one problem entry, bounded time and its own rows: no row is there
that honest brokers would not have given. The tempting simplification, to trust the types in a
parsed body, shows here as a snapshot that cannot be landed.
"""

import asyncio
import time
from contextlib import AsyncExitStack
from functools import partial

import pytest

from tests.support.hostile_servers import (
    CONFIG,
    FAULTS,
    GROUPS,
    MAX_OFFSET,
    MEMBERS,
    MIN_OFFSET,
    OFFSETS,
    RUNTIME,
    TOPIC_STATS,
    TOPICS,
    TOPICS_OF,
    binary,
    each_fault,
    frame,
    list_brokers,
    replaced,
    sent,
    serve,
    silence,
)
from tidemark.lake.landing import land, landed
from tidemark.lake.loading import read_landed
from tidemark.rocketmq.collector import collect
from tidemark.rocketmq.records import SHALLOW
from tidemark.rocketmq.snapshot.target import ClusterTarget
from tidemark.settings.home import Home

ENOUGH = 3.0
"""Seconds for a snapshot."""

BOUND = 10.0
"""Seconds that no snapshot exceeds, on a machine however busy."""

NAMES = {
    TOPIC_STATS: "GET_TOPIC_STATS_INFO",
    OFFSETS: "GET_ALL_CONSUMER_OFFSET",
    CONFIG: "GET_BROKER_CONFIG",
    GROUPS: "GET_ALL_SUBSCRIPTIONGROUP_CONFIG",
    MEMBERS: "GET_CONSUMER_CONNECTION_LIST",
    RUNTIME: "GET_BROKER_RUNTIME_INFO",
    TOPICS_OF: "GET_ALL_TOPIC_CONFIG",
}


def taken(scripted, wrong, name="b"):
    """A snapshot of two brokers, the second one wrong, and its address."""

    async def main():
        async with AsyncExitStack() as stack:
            honest = await stack.enter_async_context(scripted(partial(serve, "a", {})))
            other = await stack.enter_async_context(scripted(partial(serve, name, wrong)))
            listing = partial(list_brokers, {"a": honest, "b": other})
            server = await stack.enter_async_context(scripted(listing))
            target = ClusterTarget(
                name_servers=(server,), request_timeout=0.8, total_timeout=ENOUGH
            )
            return await collect(target), other

    return asyncio.run(main())


def values(snapshot):
    """Every row of every table, addresses aside."""
    return {
        (table, *(str(value) for name, value in row.items() if name not in KEPT_APART))
        for table in SHALLOW
        for row in snapshot.records(table)
    }


KEPT_APART = {"snapshot_id", "observed_at", "cluster", "address"}


ONE_TOPIC = {
    "offset beyond 64 bits": replaced(b'"maxOffset":101', b'"maxOffset":9223372036854775808'),
    "offset null": replaced(b'"maxOffset":101', b'"maxOffset":null'),
    "NaN": replaced(b'"maxOffset":101', b'"maxOffset":NaN'),
    "queue twice": replaced(b'"queueId":1,"topic":"T1"', b'"queueId":0,"topic":"T1"'),
    "queue twice, distinguished": replaced(
        b'"queueId":1,"topic":"T1"', b'"queueId":0,"topic":"T1","x":1'
    ),
    "queue beyond 32 bits": replaced(
        b'"queueId":1,"topic":"T1"', b'"queueId":2147483648,"topic":"T1"'
    ),
    "cut": replaced(b'"topic":"T1"}:{"last', b'"topic":"T1"'),
    "another topic's": replaced(b'"topic":"T1"', b'"topic":"T2"'),
    "reference": replaced(
        b'{"lastUpdateTimestamp":1795252923864,"maxOffset":101,"minOffset":1}', b'{"$ref":"$"}'
    ),
}  # fmt: skip
FAULTS |= {f"one topic: {name}": (TOPIC_STATS, fault) for name, fault in ONE_TOPIC.items()}


@pytest.fixture(scope="module")
def known():
    """The rows of an honest snapshot, made by the first test that needs them."""
    return {}


def honest_values(scripted, known):
    if not known:
        snapshot, _ = taken(scripted, {})
        assert (snapshot.status, snapshot.problems) == ("COMPLETE", [])
        assert len(snapshot.queue_offsets) == len(snapshot.consumer_offsets) == 24
        known["rows"] = values(snapshot)
    return known["rows"]


def only_problem(snapshot, endpoint, code):
    (problem,) = snapshot.problems
    assert (problem.endpoint, problem.operation.split()[0]) == (endpoint, NAMES[code])
    assert problem.message and "\n" not in problem.message and len(problem.message) < 400
    assert snapshot.status == "PARTIAL"
    return problem.message


@each_fault
def test_a_fault_costs_one_problem_and_invents_no_row(scripted, known, tmp_path, name):
    code, fault = FAULTS[name]
    expected = honest_values(scripted, known)
    started = time.monotonic()
    snapshot, endpoint = taken(scripted, {code: fault})
    assert time.monotonic() - started < BOUND
    only_problem(snapshot, endpoint, code)
    land(Home.of(tmp_path), snapshot)  # every value has the type of its column
    pairs = values(snapshot)
    assert expected - pairs  # faulty values are not there
    assert not any("a" in row or "c-a" in row for row in expected - pairs)
    # A broker without counters still has a row, without values.
    assert all(row[0] == "brokers" and "None" in row for row in pairs - expected)


DENIED = sent(lambda opaque, body: frame(opaque, code=16, remark="no permission"))
CLOSED = sent(lambda opaque, body: b"", close=True)


@pytest.mark.parametrize("fault", [DENIED, CLOSED], ids=["denied", "closed"])
def test_every_group_with_unknown_members_is_named(scripted, fault):
    """Only the first of equal failures is kept; the others must not look like empty groups."""
    three = replaced(b'"subscriptionGroupTable": {', b'"subscriptionGroupTable": {"h":{},"i":{},')
    snapshot, endpoint = taken(scripted, {GROUPS: three, MEMBERS: fault})
    requested = [problem.operation.split() for problem in snapshot.problems]
    assert {problem.endpoint for problem in snapshot.problems} == {endpoint}
    assert {name for name, *_ in requested} == {"GET_CONSUMER_CONNECTION_LIST"}
    assert sorted(group for _, *groups in requested for group in groups) == ["g", "h", "i"]
    assert len(requested) == 2


@pytest.mark.slow
def test_progress_that_failed_with_other_requests_is_named(scripted, tmp_path):
    """The first failure must not hide that nothing is known of any group on this broker."""
    snapshot, endpoint = taken(scripted, {RUNTIME: silence, OFFSETS: silence})
    assert "GET_ALL_CONSUMER_OFFSET" in {problem.operation for problem in snapshot.problems}
    assert {problem.endpoint for problem in snapshot.problems} == {endpoint}
    land(Home.of(tmp_path), snapshot)
    (item,) = landed(Home.of(tmp_path))
    (header,) = read_landed(item)["raw.snapshots"].to_pylist()
    assert header["brokers_read"] == ["a"]


def test_an_offset_in_a_header_beyond_64_bits_is_one_problem(scripted, tmp_path):
    """Queues that 202 leaves out are requested one by one (30 and 31)."""
    first = b'"maxOffset":100,"minOffset":0}'
    alone = b'{"offsetTable":{{"brokerName":"b","queueId":0,"topic":"T0"}:{' + first + b"}}"
    beyond = sent(lambda opaque, body: frame(opaque, extFields={"offset": str(2**63)}))
    wrong = {TOPIC_STATS: replaced(b"", alone), MAX_OFFSET: beyond, MIN_OFFSET: beyond}
    snapshot, _ = taken(scripted, wrong)
    named = {problem.operation.split()[0] for problem in snapshot.problems}
    assert named & {"GET_MAX_OFFSET", "GET_MIN_OFFSET"}
    land(Home.of(tmp_path), snapshot)  # every value has the type of its column


@pytest.mark.parametrize("header", [frame, binary])
def test_disordered_and_duplicate_responses_are_matched(scripted, known, header):
    pending = []

    async def backwards(writer, opaque, body):
        pending.append((opaque, body))
        if len(pending) == len(TOPICS):
            for opaque, body in reversed(pending):
                writer.write(header(opaque, body) + header(opaque, b"{}") + header(7_000_000, body))

    snapshot, _ = taken(scripted, {TOPIC_STATS: backwards})
    assert (snapshot.status, snapshot.problems) == ("COMPLETE", [])
    assert values(snapshot) == honest_values(scripted, known)


def test_responses_with_swapped_topics_are_refused(scripted, known):
    pending = []

    async def swap(writer, opaque, body):
        pending.append((opaque, body))
        if len(pending) == 2:
            (first, one), (second, two) = pending
            writer.write(frame(first, two) + frame(second, one))
        elif len(pending) > 2:
            writer.write(frame(opaque, body))

    snapshot, endpoint = taken(scripted, {TOPIC_STATS: swap})
    assert [problem.endpoint for problem in snapshot.problems] == [endpoint] * 2
    assert all("a response about topic 'T" in problem.message for problem in snapshot.problems)
    assert values(snapshot) < honest_values(scripted, known)


def test_negative_offsets_stay_as_read(scripted, known, tmp_path):
    snapshot, endpoint = taken(scripted, {OFFSETS: replaced(b'"T3@g":{0:5', b'"T3@g":{0:-5')})
    message = only_problem(snapshot, endpoint, OFFSETS)
    assert message == "1 offsets below 0, such as -5 of g on T3 queue 0"
    (wrong,) = values(snapshot) - honest_values(scripted, known)
    assert wrong[:6] == ("consumer_offsets", "b", "g", "T3", "0", "None") and "-5" in wrong
    snapshot, endpoint = taken(
        scripted, {TOPIC_STATS: replaced(b'101,"minOffset":1', b'101,"minOffset":-1')}
    )
    message = only_problem(snapshot, endpoint, TOPIC_STATS)
    assert message == "1 offsets below 0, such as -1 to 101 of T1 queue 1"
    land(Home.of(tmp_path), snapshot)


def test_a_counter_beyond_its_column_is_unknown(scripted, tmp_path):
    wrong = {CONFIG: replaced(b"fileReservedTime=72", b"fileReservedTime=99999999999")}
    snapshot, _ = taken(scripted, wrong)
    assert [row.retention_hours for row in snapshot.brokers] == [72, None]
    land(Home.of(tmp_path), snapshot)


def test_another_broker_behind_the_address(scripted, known):
    snapshot, endpoint = taken(scripted, {}, name="z")
    assert only_problem(snapshot, endpoint, CONFIG) == "b 0 is gone, z has its address now"
    assert (snapshot.brokers_expected, snapshot.brokers_answered) == (2, 1)
    assert {row.broker for row in snapshot.queue_offsets + snapshot.consumer_offsets} == {"a"}
    assert snapshot.brokers[1].version is None


@pytest.mark.parametrize("entries", [100_000, 1_000_000])
def test_a_large_unusual_body_is_refused_at_once(scripted, entries):
    body = b'{"offsetTable":{"T@g":{0: 5}' + b',"T@g":{0: 5}' * entries + b"}}"
    started = time.monotonic()
    snapshot, endpoint = taken(scripted, {OFFSETS: replaced(b"", body)})
    assert time.monotonic() - started < BOUND
    assert "too large" in only_problem(snapshot, endpoint, OFFSETS)


@pytest.mark.parametrize(
    "body",
    [
        "",
        "[]",
        '{"brokerAddrTable":[],"clusterAddrTable":{}}',
        '{"brokerAddrTable":{"a":{"brokerName":1,"cluster":"c","brokerAddrs":{}}},'
        '"clusterAddrTable":{}}',
        '{"brokerAddrTable":{"a":{"brokerName":"a","cluster":"c","brokerAddrs":{"x":"h:1"}}},'
        '"clusterAddrTable":{}}',
        '{"brokerAddrTable":{"a":{"brokerName":"a","cluster":"c","brokerAddrs":{0:null}}},'
        '"clusterAddrTable":{}}',
        '{"brokerAddrTable":{"a":{"brokerName":"a","cluster":"c","brokerAddrs":{'
        '9223372036854775808:"h:1"}}},"clusterAddrTable":{}}',
        '{"brokerAddrTable":{},"clusterAddrTable":{"c":"a"}}',
    ],
)
def test_a_faulty_name_server_is_one_problem(scripted, tmp_path, body):
    async def main():
        async def respond(reader, writer):
            await reader.readexactly(8)
            writer.write(frame(1, body.encode()))
            await reader.read()

        async with scripted(respond) as server:
            return await collect(
                ClusterTarget(name_servers=(server,), total_timeout=ENOUGH)
            ), server

    snapshot, server = asyncio.run(main())
    (problem,) = snapshot.problems
    assert (problem.endpoint, problem.operation) == (server, "GET_BROKER_CLUSTER_INFO")
    assert problem.message.startswith("unreadable response: ") and "\n" not in problem.message
    assert (snapshot.status, snapshot.brokers) == ("FAILED", [])
    land(Home.of(tmp_path), snapshot)
