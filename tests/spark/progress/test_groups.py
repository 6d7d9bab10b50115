"""``progress.groups``: sums of the known, and unknowns that stay visible."""

from collections.abc import Sequence
from typing import Any

import pytest
from pyspark.sql import SparkSession

from spark.progress.filtering import Evidence
from spark.progress.groups import groups
from spark.progress.queues import queues
from tests.support.plan_readers import reader_with
from tests.support.table_rows import frame, minute, minutes, raw_frames, snapshot_id
from tidemark.lake.bounds import Bound, bound_of
from tidemark.lake.tables.progress import THROUGHPUT
from tidemark.lake.tables.raw import QUEUE_OFFSETS
from tidemark.planning.lacking_parts import UnreachableBroker
from tidemark.rocketmq.names import version_order

pytestmark = pytest.mark.spark


def compute(
    spark: SparkSession,
    *,
    unreachable: Sequence[UnreachableBroker] = (),
    window: tuple[float, float] = (0, 60),
    quarantined: Sequence[dict[str, Any]] = (),
    acknowledged: Sequence[tuple[str, str, float]] = (),
    **rows: Sequence[dict[str, Any]],
) -> dict[tuple[str, str], dict[str, Any]]:
    raw = raw_frames(spark, **rows)
    counted = [
        {
            "at": window[0],
            "stats_name": "GROUP_ACK_NUMS",
            "stats_key": f"{topic}@{group}",
            "stats_window": "minute",
            "topic": topic,
            "consumer_group": group,
            "tps": tps,
        }
        for group, topic, tps in acknowledged
    ]
    throughput = frame(spark, THROUGHPUT, counted) if counted else None
    of_queues = queues(raw, minutes(*window))
    # As a tick reads those that it has stored: their plan would be planned again.
    rows_of_queues = of_queues.toArrow()
    outcome = groups(
        spark.createDataFrame(rows_of_queues) if rows_of_queues.num_rows else of_queues,
        raw,
        reader_with(spark, unreachable=unreachable).unreachable(),
        minutes(*window),
        Evidence(throughput=throughput),
        listed=raw.queue_offsets.unionByName(frame(spark, QUEUE_OFFSETS, quarantined)),
    )
    rows_found = [row.asDict() for row in outcome.collect()]
    result = {(row["consumer_group"], row["topic"]): row for row in rows_found}
    assert len(result) == len(rows_found), "a pair has one row"
    return result


def written(maximum: int, **other: Any) -> dict[str, Any]:
    row = {"at": 0, "topic": "orders", "queue_id": 0, "min_offset": 0, "max_offset": maximum}
    return row | other


def read(committed: int | None, **other: Any) -> dict[str, Any]:
    row = {
        "at": 0,
        "topic": "orders",
        "queue_id": 0,
        "consumer_group": "billing",
        "consumer_offset": committed,
        "offset_store": "broker",
    }
    return row | other


def member(client_id: str, *topics: str, **other: Any) -> dict[str, Any]:
    subscriptions = [
        {"topic": topic, "expression_type": "TAG", "expression": "*", "tags": []}
        for topic in topics
    ]
    row = {
        "at": 0,
        "consumer_group": "billing",
        "client_id": client_id,
        "message_model": "CLUSTERING",
        "consume_type": "CONSUME_PASSIVELY",
        "version": "V5_3_3",
        "subscriptions": subscriptions,
    }
    return {name: value for name, value in (row | other).items() if name != "broker"}


def existing(*topics: str) -> list[dict[str, Any]]:
    row = {"at": 0, "read_queues": 1, "write_queues": 1, "perm": 6, "kind": "normal"}
    return [row | {"topic": name} for name in topics]


SNAPSHOT = {"at": 0, "status": "COMPLETE"}


def test_sums_take_known_queues_and_clip_negatives(spark):
    rows = compute(
        spark,
        queue_offsets=[written(100), written(100, queue_id=1), written(100, queue_id=2)],
        consumer_offsets=[read(60), read(130, queue_id=1), read(None, queue_id=2)],
    )
    row = rows["billing", "orders"]
    assert (row["lag"], row["lag_upper"]) == (40, 140)
    assert (row["queues"], row["queues_unknown"], row["queues_never_committed"]) == (3, 0, 1)
    assert row["complete"] is True
    assert (row["max_queue_lag"], row["worst_broker"], row["worst_queue_id"]) == (40, "broker-a", 0)
    assert row["skew"] == 2.0
    assert row["inflight"] is None


def test_the_worst_queue_has_the_least_broker_and_number_of_those_with_the_largest_lag(spark):
    worst = {"lag": 40, "broker": "broker-b", "queue_id": 1}
    others = [
        {"lag": 40, "broker": "broker-b", "queue_id": 3},
        {"lag": 40, "broker": "broker-c", "queue_id": 0},
        {"lag": 39, "broker": "broker-a", "queue_id": 0},
        {"lag": -5, "broker": "broker-a", "queue_id": 1},
    ]
    row = _of_lags(spark, [*others, worst])
    assert (row["worst_broker"], row["worst_queue_id"]) == ("broker-b", 1)
    assert (row["max_queue_lag"], row["lag"]) == (40, 159)
    assert row["skew"] == pytest.approx(40 / (159 / 5))


@pytest.mark.parametrize(
    "lags",
    [
        {("broker-a", 0): 2**62, ("broker-a", 1): 2**62},
        {("broker-a", 0): 2**62, ("broker-b", 0): 2**62},
        {("broker-a", 0): 2**62, ("broker-a", 1): 2**62, ("broker-b", 0): 5},
    ],
    ids=["of one broker", "of two brokers", "of one of two brokers"],
)
def test_a_sum_that_no_number_can_hold_is_unknown(spark, lags):
    row = _of_lags(
        spark,
        [
            {"lag": lag, "broker": broker, "queue_id": queue_id}
            for (broker, queue_id), lag in lags.items()
        ],
    )
    assert (row["lag"], row["lag_upper"], row["lost"]) == (None, None, 0)
    assert (row["max_queue_lag"], row["worst_queue_id"]) == (2**62, 0)


def _of_lags(spark, queues):
    places = [{"broker": queue["broker"], "queue_id": queue["queue_id"]} for queue in queues]
    end = 2**62
    row = compute(
        spark,
        queue_offsets=[written(end, **place) for place in places],
        consumer_offsets=[
            read(end - queue["lag"], **place) for queue, place in zip(queues, places, strict=True)
        ],
    )["billing", "orders"]
    return row


def shrunk(read_queues=2, **columns):
    return existing("orders")[0] | {"read_queues": read_queues, "write_queues": 4} | columns


FOUR = [written(90, queue_id=queue) for queue in range(4)]


def test_queues_beyond_the_read_queues_are_no_lag(spark):
    """Consumers cannot reduce them: what a group left there before has a number of its own."""
    row = compute(
        spark,
        snapshots=[SNAPSHOT],
        topics=[shrunk()],
        queue_offsets=FOUR,
        consumer_offsets=[read(50, queue_id=queue) for queue in range(4)],
    )["billing", "orders"]
    assert (row["lag"], row["queues"], row["unreachable_messages"]) == (80, 2, 80)
    assert (row["queues_unknown"], row["complete"]) == (0, True)


UNREACHABLE = {
    "all queues are read": ([shrunk(4)], [50, 50, 50, 50], 0),
    "nothing was consumed there": ([shrunk()], [50, 50], 180),
    "a commit is ahead of its queue": ([shrunk()], [50, 50, 99, 50], 40),
    "the configuration is unknown": ([], [50, 50, 50, 50], None),
}


@pytest.mark.parametrize(
    ("topics", "commits", "expected"), UNREACHABLE.values(), ids=UNREACHABLE.keys()
)
def test_unreachable_messages_of_a_group(spark, topics, commits, expected):
    row = compute(
        spark,
        topics=topics,
        queue_offsets=FOUR,
        consumer_offsets=[read(commit, queue_id=queue) for queue, commit in enumerate(commits)],
    )["billing", "orders"]
    assert row["unreachable_messages"] == expected


def test_unreachable_messages_of_broadcasting_members_are_unknown(spark):
    row = compute(
        spark,
        topics=[shrunk()],
        clients=[member("a1", "orders", message_model="BROADCASTING")],
        queue_offsets=FOUR,
    )["billing", "orders"]
    assert (row["unreachable_messages"], row["queues"], row["queues_unknown"]) == (None, 2, 2)


def test_queues_of_an_unreachable_broker_that_nobody_reads_are_not_unknown(spark):
    row = compute(
        spark,
        snapshots=[{"at": 0}, {"at": 1}],
        topics=[shrunk()],
        queue_offsets=FOUR,
        consumer_offsets=[read(50, queue_id=queue) for queue in range(4)],
        unreachable=[UnreachableBroker(snapshot_id(1), "broker-a", snapshot_id(0))],
        window=(1, 60),
    )["billing", "orders"]
    assert (row["queues"], row["queues_unknown"]) == (2, 2)


BOUNDS = {
    "every queue is dated": ([{"first_unconsumed_at": minute(-9)}] * 2, 9, False),
    "one is dated from below": ([{"first_unconsumed_at": minute(-9)}, {"is_old": True}], 9, True),
    "one has no date": ([{"first_unconsumed_at": minute(-9)}, {}], 9, True),
    "none has": ([{}, {}], None, None),
    "one never committed": ([{"first_unconsumed_at": minute(-9)}, {"offset": None}], 9, False),
    "all is consumed": ([{"offset": 100}] * 2, 0, False),
}


@pytest.mark.parametrize(("queues_of_group", "delay", "is_bound"), BOUNDS.values(), ids=BOUNDS)
def test_a_delay_is_a_bound_where_a_queue_may_be_older(spark, queues_of_group, delay, is_bound):
    """The largest known delay states nothing of a queue whose own is unknown or at least known."""
    queue_offsets, consumer_offsets = [], []
    for number, queue in enumerate(queues_of_group):
        newest = minute(-4) if queue.get("is_old") else None
        queue_offsets.append(written(100, queue_id=number, newest_stored_at=newest))
        first = queue.get("first_unconsumed_at")
        committed = queue.get("offset", 60)
        consumer_offsets.append(
            read(committed, pull_offset=committed, queue_id=number, first_unconsumed_at=first)
        )
    rows = compute(spark, queue_offsets=queue_offsets, consumer_offsets=consumer_offsets)
    row, delay_ms = rows["billing", "orders"], None if delay is None else delay * 60_000
    assert (row["delay_ms"], row["delay_is_lower_bound"]) == (delay_ms, is_bound)
    assert (row["ready_delay_ms"], row["ready_delay_is_lower_bound"]) == (delay_ms, is_bound)


def test_a_group_that_never_committed_has_unknown_lag(spark):
    row = compute(spark, queue_offsets=[written(500)], consumer_offsets=[read(None)])[
        "billing", "orders"
    ]
    assert (row["lag"], row["lag_upper"], row["queues_never_committed"]) == (None, 500, 1)


def test_an_unreachable_broker_hides_its_last_known_queues(spark):
    rows = compute(
        spark,
        queue_offsets=[written(100, at=1)],
        consumer_offsets=[
            read(90),
            read(90, broker="broker-b"),
            read(90, broker="broker-b", queue_id=1),
            read(95, at=1),
            read(7, broker="broker-b", consumer_group="only-there"),
        ],
        snapshots=[{"at": 1, "status": "PARTIAL"}],
        unreachable=[UnreachableBroker(snapshot_id(1), "broker-b", snapshot_id(0))],
        window=(1, 2),
    )
    seen = rows["billing", "orders"]
    assert (seen["lag"], seen["queues"], seen["queues_unknown"], seen["complete"]) == (
        5,
        3,
        2,
        False,
    )
    hidden = rows["only-there", "orders"]
    assert (hidden["lag"], hidden["queues"], hidden["queues_unknown"]) == (None, 1, 1)
    assert hidden["online"] is None and hidden["clients"] is None


def test_an_unreachable_broker_hides_no_more_than_it_listed(spark):
    """A commit that outlived its queue, and a row without a queue, were no queues before."""
    gone = {"broker": "broker-b"}
    row = compute(
        spark,
        queue_offsets=[written(100, at=1), written(100, **gone)],
        consumer_offsets=[
            read(95, at=1),
            *(read(90, **gone, queue_id=queue_id) for queue_id in (0, 7, None)),
        ],
        snapshots=[{"at": 1, "status": "PARTIAL"}],
        unreachable=[UnreachableBroker(snapshot_id(1), "broker-b", snapshot_id(0))],
        window=(1, 2),
    )["billing", "orders"]
    assert (row["queues"], row["queues_unknown"]) == (2, 1)


def test_a_commit_that_outlived_its_topic_is_no_queue(spark):
    rows = compute(
        spark,
        snapshots=[SNAPSHOT],
        topics=existing("orders", "payments"),
        queue_offsets=[written(100)],
        consumer_offsets=[read(60), read(50, topic="payments"), read(50, topic="deleted")],
    )
    assert {topic for _, topic in rows} == {"orders", "payments"}


def test_a_quarantined_queue_counts_as_unknown(spark):
    rows = compute(
        spark,
        queue_offsets=[written(100)],
        quarantined=[written(50, queue_id=1, min_offset=60)],
        consumer_offsets=[read(60), read(50, queue_id=1)],
    )
    row = rows["billing", "orders"]
    assert (row["lag"], row["queues"], row["queues_unknown"]) == (40, 2, 1)


def test_a_topic_that_was_not_read_counts_as_unknown(spark):
    rows = compute(
        spark,
        queue_offsets=[written(100)],
        consumer_offsets=[read(60), read(50, topic="payments")],
    )
    row = rows["billing", "payments"]
    assert (row["lag"], row["queues"], row["queues_unknown"]) == (None, 1, 1)


def test_a_commit_that_outlived_its_queue_is_no_queue(spark):
    rows = compute(
        spark,
        queue_offsets=[written(100)],
        consumer_offsets=[read(60), read(50, queue_id=5)],
    )
    row = rows["billing", "orders"]
    assert (row["lag"], row["queues"], row["queues_unknown"], row["complete"]) == (40, 1, 0, True)


def test_members_and_their_lowest_version(spark):
    rows = compute(
        spark,
        snapshots=[SNAPSHOT],
        queue_offsets=[written(100)],
        consumer_offsets=[read(60), read(60, consumer_group="gone")],
        clients=[
            member("c1", "orders", "payments", version="V5_3_3"),
            member("c2", "orders", version="V4_9_7"),
        ],
    )
    row = rows["billing", "orders"]
    assert (row["clients"], row["online"], row["client_version"]) == (2, True, "V4_9_7")
    assert rows["billing", "payments"]["clients"] == 1
    assert rows["billing", "payments"]["queues"] == 0
    gone = rows["gone", "orders"]
    assert (gone["clients"], gone["online"], gone["lag"]) == (0, False, 40)


def test_a_group_of_lite_topics_has_no_row_on_the_topic_it_is_bound_to(spark):
    """Its members subscribe to that one, and each to lite topics of it."""
    alice = {"topic": "%LMQ%$sessions$alice", "request_mode": "pop"}
    rows = compute(
        spark,
        snapshots=[SNAPSHOT],
        queue_offsets=[written(100, topic="sessions"), written(100, topic=alice["topic"])],
        consumer_offsets=[read(60, **alice)],
        clients=[
            member("c1", "sessions", alice["topic"], message_model="LITE_SELECTIVE"),
            member("c2", "sessions", message_model="LITE_SELECTIVE"),
        ],
    )
    row = rows.pop(("billing", alice["topic"]))
    assert not rows
    assert (row["lag"], row["online"], row["clients"]) == (40, True, 1)
    assert (row["consume_mode"], row["lag_is_lower_bound"], row["inflight"]) == ("pop", False, None)


@pytest.mark.parametrize("requested", ["billing", "another billing third"])
def test_nobody_known_online_where_the_question_failed(spark, requested):
    problem = {
        "endpoint": "127.0.0.1:1",
        "operation": f"GET_CONSUMER_CONNECTION_LIST {requested}",
        "code": None,
        "message": "timed out",
    }
    rows = compute(
        spark,
        snapshots=[SNAPSHOT | {"status": "PARTIAL", "problems": [problem]}],
        queue_offsets=[written(100)],
        consumer_offsets=[read(60), read(60, consumer_group="other")],
    )
    assert rows["billing", "orders"]["online"] is None
    assert rows["other", "orders"]["online"] is False


@pytest.mark.parametrize(
    ("topics", "proxies", "online"),
    [
        pytest.param((), None, False, id="no proxy"),
        pytest.param(("DefaultHeartBeatSyncerTopic",), None, None, id="proxy not requested"),
        pytest.param(("DefaultHeartBeatSyncerTopic",), 1, False, id="proxy reports nobody"),
    ],
)
def test_a_proxy_may_know_who_is_online(spark, topics, proxies, online):
    """Its gRPC clients are connected to no broker. Members that brokers report are online."""
    rows = compute(
        spark,
        snapshots=[SNAPSHOT | {"proxies_answered": proxies}],
        topics=existing("orders", *topics),
        queue_offsets=[written(100)],
        consumer_offsets=[read(60), read(60, consumer_group="other")],
        clients=[member("c", "orders", "%RETRY%other", consumer_group="other")],
    )
    row = rows["billing", "orders"]
    assert (row["online"], row["clients"]) == (online, None if online is None else 0)
    assert rows["other", "orders"]["online"] is True


@pytest.mark.parametrize(
    ("committed", "acknowledged", "online"),
    [
        pytest.param(60, (), False, id="nothing moves"),
        pytest.param(61, (), None, id="a commit moves"),
        pytest.param(60, [("billing", "orders", 0.5)], None, id="acknowledgements"),
        pytest.param(60, [("billing", "orders", 0.0)], False, id="no acknowledgements"),
        pytest.param(60, [("other", "orders", 0.5)], False, id="those of another group"),
    ],
)
def test_what_moves_disproves_that_nobody_is_online(spark, committed, acknowledged, online):
    """On all topics of the group: somebody consumes one of them."""
    rows = compute(
        spark,
        snapshots=[SNAPSHOT, SNAPSHOT | {"at": 1}],
        queue_offsets=[written(100), written(100, at=1), written(9, at=1, topic="payments")],
        consumer_offsets=[
            read(60),
            read(committed, at=1),
            read(5, at=1, topic="payments"),
        ],
        window=(1, 2),
        acknowledged=acknowledged,
    )
    assert rows["billing", "orders"]["online"] is online
    assert rows["billing", "payments"]["online"] is online


def test_pop_shows_in_groups(spark):
    rows = compute(
        spark,
        topics=[{"at": 0, "topic": "%RETRY%billing+orders", "kind": "pop_retry"}],
        queue_offsets=[written(100), written(100, topic="payments")],
        consumer_offsets=[read(60), read(60, topic="payments", request_mode="pull")],
        acknowledged=[("billing", "orders", 2.5)],
    )
    names = ("consume_mode", "lag_is_lower_bound", "inflight", "ack_tps")
    popped, pulled = rows["billing", "orders"], rows["billing", "payments"]
    assert [popped[name] for name in names] == ["pop", True, None, 2.5]
    assert [pulled[name] for name in names] == ["pull", False, None, None]


def test_retry_lag_holds_pop_retry_topics(spark):
    """Both namings at once, as after ``enableRetryTopicV2`` was switched on."""
    topics = ("%RETRY%billing", "%RETRY%billing_orders", "%RETRY%billing+orders")
    # The retry topic of another group, whose name begins alike.
    topics += ("%RETRY%billing-old",)
    rows = compute(
        spark,
        snapshots=[SNAPSHOT],
        queue_offsets=[written(100), *(written(10, topic=topic) for topic in topics)],
        consumer_offsets=[
            read(60),
            *(read(done, topic=topic) for topic, done in zip(topics, (9, 7, 4), strict=False)),
            read(0, topic=topics[3], consumer_group="billing-old"),
        ],
    )
    assert rows["billing", "orders"]["retry_lag"] == 1 + 3 + 6
    assert rows["billing-old", topics[3]]["retry_lag"] == 10


@pytest.mark.parametrize(
    ("topic", "mode", "is_bound"),
    [
        pytest.param("%RETRY%billing+orders", None, True, id="popped"),
        pytest.param("%RETRY%billing", "pull", False, id="pulled"),
        pytest.param("%RETRY%billing", None, None, id="nothing shows how"),
        pytest.param(None, None, False, id="no retry topic"),
    ],
)
def test_retry_lag_is_a_bound_where_retry_topics_are_popped(spark, topic, mode, is_bound):
    """A commit follows pops there too: what was popped and not acknowledged is missing."""
    retries = [] if topic is None else [topic]
    kinds = [{"at": 0, "topic": retry, "kind": "pop_retry"} for retry in retries if "+" in retry]
    rows = compute(
        spark,
        snapshots=[SNAPSHOT],
        topics=[*existing("orders"), *kinds],
        queue_offsets=[written(100), *(written(9, topic=retry) for retry in retries)],
        consumer_offsets=[
            read(60, request_mode=mode),
            *(read(4, topic=retry, request_mode=mode) for retry in retries),
        ],
    )
    row = rows["billing", "orders"]
    assert row["retry_lag"] == (5 if retries else 0)
    assert row["retry_lag_is_lower_bound"] is is_bound
    bound = Bound.LOWER if is_bound else None
    assert bound_of("retry_lag", {**row, "lag_is_lower_bound": None}) is bound


@pytest.mark.parametrize("topic", ["%RETRY%billing_orders", "%RETRY%billing+orders"])
def test_messages_in_an_unread_pop_retry_topic_are_not_zero(spark, topic):
    """The group is gone and never committed there, so what it has read is unknown."""

    def retry_lag(stored, read_there):
        kind = {"snapshot_id": snapshot_id(0), "kind": "pop_retry"}
        rows = compute(
            spark,
            snapshots=[SNAPSHOT],
            topics=[*existing("orders", "%RETRY%billing"), existing(topic)[0] | kind],
            queue_offsets=[
                *(written(100, topic=name) for name in ("orders", "%RETRY%billing")),
                written(stored, topic=topic),
            ],
            consumer_offsets=[
                *(read(100, topic=name) for name in ("orders", "%RETRY%billing", *read_there)),
                read(100, consumer_group="other"),
            ],
        )
        assert rows["other", "orders"]["retry_lag"] == 0
        return rows["billing", "orders"]["retry_lag"]

    assert retry_lag(50, []) is None
    assert retry_lag(0, []) == 0
    assert retry_lag(150, [topic]) == 50


def test_files_do_not_report_who_is_online(spark):
    row = compute(
        spark,
        snapshots=[SNAPSHOT | {"source": "store"}],
        queue_offsets=[written(100)],
        consumer_offsets=[read(60)],
    )["billing", "orders"]
    assert (row["lag"], row["complete"]) == (40, True)
    assert (row["online"], row["clients"]) == (None, None)


def test_offset_files_are_no_observation_of_a_group(spark):
    rows = compute(
        spark,
        snapshots=[SNAPSHOT, {"at": 1, "status": "COMPLETE", "source": "local_offsets"}],
        queue_offsets=[written(100)],
        consumer_offsets=[
            read(60),
            read(30, at=1, client_id="c1", offset_store="client_file"),
            read(30, at=1, client_id="c1", offset_store="client_file", consumer_group="other"),
        ],
    )
    assert rows.keys() == {("billing", "orders")}
    assert rows["billing", "orders"]["queues_unknown"] == 0


def test_retry_lag_and_dead_letters(spark):
    rows = compute(
        spark,
        snapshots=[SNAPSHOT],
        topics=existing("orders", "%RETRY%billing", "%DLQ%billing"),
        queue_offsets=[
            written(100),
            written(9, topic="%RETRY%billing"),
            written(12, topic="%DLQ%billing", min_offset=5),
        ],
        consumer_offsets=[
            read(60),
            read(2, topic="%RETRY%billing"),
            read(60, consumer_group="other"),
        ],
    )
    assert rows["billing", "orders"]["retry_lag"] == 7
    assert rows["billing", "orders"]["dlq_messages"] == 7
    # A complete snapshot without these topics means that they are empty.
    assert rows["other", "orders"]["retry_lag"] == 0
    assert rows["other", "orders"]["dlq_messages"] == 0


def test_unknown_retries_and_dead_letters_are_not_zero(spark):
    """Retries that nobody committed on, and a dead-letter queue in quarantine."""
    rows = compute(
        spark,
        snapshots=[SNAPSHOT],
        topics=existing("orders", "%RETRY%billing", "%DLQ%billing", "%RETRY%other"),
        queue_offsets=[
            written(100),
            written(5, topic="%RETRY%billing"),
            written(0, topic="%RETRY%other"),
        ],
        consumer_offsets=[read(60), read(60, consumer_group="other")],
    )
    billing, other = rows["billing", "orders"], rows["other", "orders"]
    assert (billing["retry_lag"], billing["dlq_messages"]) == (None, None)
    assert (other["retry_lag"], other["dlq_messages"]) == (0, 0)


def test_an_empty_snapshot_has_no_zero_retries(spark):
    row = compute(
        spark,
        snapshots=[SNAPSHOT, {"at": 1, "status": "COMPLETE"}],
        unreachable=[UnreachableBroker(snapshot_id(1), "broker-a", snapshot_id(0))],
        window=(1, 2),
        queue_offsets=[written(100)],
        consumer_offsets=[read(60)],
    )["billing", "orders"]
    assert (row["queues"], row["queues_unknown"]) == (1, 1)
    assert (row["retry_lag"], row["dlq_messages"]) == (None, None)


@pytest.mark.parametrize("end", ["min_offset", "max_offset"])
def test_a_queue_with_one_unknown_end_is_unknown(spark, end):
    row = compute(
        spark,
        queue_offsets=[written(100), written(100, queue_id=1) | {end: None}],
        consumer_offsets=[read(90), read(50, queue_id=1)],
    )["billing", "orders"]
    assert (row["lag"], row["readable_lag"], row["lag_upper"]) == (10, 10, 10)
    assert (row["queues"], row["queues_unknown"], row["complete"]) == (2, 1, False)
    assert (row["max_queue_lag"], row["worst_queue_id"]) == (10, 0)


def test_a_partial_snapshot_has_no_zero_retries(spark):
    row = compute(
        spark,
        snapshots=[SNAPSHOT | {"status": "PARTIAL"}],
        queue_offsets=[written(100)],
        consumer_offsets=[read(60)],
    )["billing", "orders"]
    assert (row["retry_lag"], row["dlq_messages"]) == (None, None)


@pytest.mark.parametrize(("unreachable", "expected"), [((), 0), (("broker-b",), None)])
def test_a_topic_that_every_broker_would_name_is_empty_whatever_else_failed(
    spark, unreachable, expected
):
    """With a slave or a name server down each snapshot is partial."""
    row = compute(
        spark,
        snapshots=[SNAPSHOT | {"status": "PARTIAL"}],
        brokers=[{"at": 0, "broker": name, "broker_id": 0} for name in ("broker-a", *unreachable)],
        topics=existing("orders"),
        queue_offsets=[written(100)],
        consumer_offsets=[read(60)],
    )["billing", "orders"]
    assert (row["retry_lag"], row["dlq_messages"]) == (expected, expected)


def test_members_that_report_no_subscription_tell_nothing(spark):
    """Queues assigned by hand need no subscription; a topic with a subscription has its clients."""
    topics = ("orders", "payments")
    entries = []
    for members in ([member("c")], [member("c"), member("d", "payments")]):
        rows = compute(
            spark,
            snapshots=[SNAPSHOT],
            queue_offsets=[written(100, topic=topic) for topic in topics],
            consumer_offsets=[read(60, topic=topic) for topic in topics],
            clients=members,
        )
        entries.append({topic: (row["online"], row["clients"]) for (_, topic), row in rows.items()})
    assert entries == [
        {"orders": (True, None), "payments": (True, None)},
        {"orders": (True, None), "payments": (True, 1)},
    ]


def configured(broker: str, *groups: str) -> list[dict[str, Any]]:
    return [{"at": 0, "broker": broker, "consumer_group": name} for name in groups]


def test_a_group_is_registered_where_a_broker_with_its_commits_has_its_configuration(spark):
    """Registration is unknown at brokers that did not report their groups."""
    held = {
        "at-a": "broker-a",
        "at-b": "broker-b",
        "elsewhere": "broker-a",
        "gone": "broker-a",
        "not-told": "broker-c",
    }
    rows = compute(
        spark,
        snapshots=[SNAPSHOT],
        queue_offsets=[written(100, broker=f"broker-{name}") for name in "abc"],
        consumer_offsets=[
            *(read(60, consumer_group=group, broker=broker) for group, broker in held.items()),
            read(60, consumer_group="at-b", broker="broker-a"),
        ],
        consumer_groups=[
            *configured("broker-a", "at-a", "TOOLS_CONSUMER"),
            *configured("broker-b", "at-b", "elsewhere"),
        ],
    )
    assert {group: row["registered"] for (group, _), row in rows.items()} == {
        "at-a": True,
        "at-b": True,
        "elsewhere": False,
        "gone": False,
        "not-told": None,
    }


AGES = {0: 30, 1: 20, 2: 10}
"""Minutes for which the first message of each queue waits."""


@pytest.mark.parametrize(
    ("order", "mode", "behind", "oldest", "skew"),
    [
        (None, "pop", {0: 60, 1: 30, 2: 10}, 2, None),
        ("true", "pop", {0: 60, 1: 30, 2: 10}, 2, None),
        ("false", "pop", {0: 60, 1: 30, 2: 10}, 0, None),
        (None, "pop", {0: 60, 1: 30, 2: 0}, 1, None),
        (None, "pop", {0: 60, 1: 0, 2: 0}, 0, None),
        (None, "pull", {0: 60, 1: 30, 2: 10}, 0, 1.8),
    ],
)
def test_the_delay_of_a_pop_group_is_that_of_the_priority_that_is_served(
    spark, order, mode, behind, oldest, skew
):
    """Priority p is in queue p, and the highest with messages goes first.

    A group that pulls takes all queues alike. The live command computes the same.
    """
    offsets = [
        read(100 - lag, queue_id=queue_id, request_mode=mode)
        | {"first_unconsumed_at": minute(-AGES[queue_id]) if lag else None}
        for queue_id, lag in behind.items()
    ]
    rows = compute(
        spark,
        window=(0, 60),
        snapshots=[SNAPSHOT],
        brokers=[
            {"at": 0, "broker": "broker-a", "broker_id": 0, "version": "V5_5_0"}
            | {"config": {} if order is None else {"priorityOrderAsc": order}}
        ],
        topics=[
            row | {"broker": "broker-a", "read_queues": 3, "message_type": "PRIORITY"}
            for row in existing("orders")
        ],
        queue_offsets=[written(100, queue_id=queue_id) for queue_id in AGES],
        consumer_offsets=offsets,
    )
    row = rows["billing", "orders"]
    assert (row["delay_ms"], row["skew"]) == (AGES[oldest] * 60_000, pytest.approx(skew))


GRPC_ID = "host@7@0@2sp1b5c8xg"


@pytest.mark.parametrize(
    ("members", "mixed", "shared"),
    [
        ([("c1", 1), ("c2", 1)], False, 0),
        ([("c1", 2), ("c2", 1), ("c3", 3)], False, 2),
        ([("c1", 1), (GRPC_ID, None)], True, 0),
        ([(GRPC_ID, None)], False, None),
        ([], False, 0),
    ],
)
def test_members_that_share_an_id_or_speak_two_protocols(spark, members, mixed, shared):
    rows = compute(
        spark,
        snapshots=[SNAPSHOT],
        queue_offsets=[written(100)],
        consumer_offsets=[read(60)],
        clients=[
            member(client_id, "orders", "payments", connections=connections)
            for client_id, connections in members
        ],
    )
    row = rows["billing", "orders"]
    assert (row["mixed_members"], row["duplicate_client_ids"]) == (mixed, shared)


def test_messages_that_come_back_are_what_is_written_to_retry_topics(spark):
    """The rule covers POP too. A first observation, or unread retry topics, give unknown."""
    retries = ("%RETRY%billing", "%RETRY%billing_orders")

    def offsets(group, topics, at, maximum):
        return [
            read(0, at=at, consumer_group=group, topic=topic) for topic in ("orders", *topics)
        ], [written(maximum, at=at, topic=topic) for topic in topics]

    observed = [
        offsets("billing", retries, 0, 100),
        offsets("billing", retries, 1, 130),
        offsets("first", ["%RETRY%first"], 1, 7),
        offsets("none", [], 1, 0),
    ]
    rows = compute(
        spark,
        window=(1, 60),
        snapshots=[SNAPSHOT | {"at": at} for at in (0, 1)],
        brokers=[{"at": at, "broker": "broker-a", "broker_id": 0} for at in (0, 1)],
        topics=[row | {"at": 1} for row in existing("orders", *retries, "%RETRY%first")],
        queue_offsets=[
            *(written(100 + 120 * at, at=at) for at in (0, 1)),
            *(row for _, queues in observed for row in queues),
        ],
        consumer_offsets=[row for consumers, _ in observed for row in consumers],
    )
    cases = {
        group: (row["redelivered_tps"], row["redelivered_share"])
        for (group, _), row in rows.items()
    }
    assert cases == {"billing": (1.0, 0.5), "first": (None, None), "none": (0.0, 0.0)}


def test_a_broadcasting_group_has_its_worst_clients_progress(spark):
    clients = [member(name, "orders", message_model="BROADCASTING") for name in ("c1", "c2")]
    rows = compute(
        spark,
        snapshots=[SNAPSHOT],
        clients=clients,
        queue_offsets=[written(100), written(100, queue_id=1)],
        consumer_offsets=[
            read(90, client_id="c1", offset_store="client_file"),
            read(20, client_id="c2", offset_store="client_file"),
            read(95, client_id="c2", offset_store="client_file", queue_id=1),
            read(0, queue_id=1),  # committed once, when the group was a cluster
        ],
    )
    row = rows["billing", "orders"]
    assert (row["lag"], row["queues"], row["message_model"]) == (85, 2, "BROADCASTING")


def test_broadcast_progress_that_only_clients_know_is_unknown(spark):
    rows = compute(
        spark,
        snapshots=[SNAPSHOT],
        clients=[member("c1", "orders", message_model="BROADCASTING")],
        queue_offsets=[written(100), written(100, queue_id=1)],
    )
    row = rows["billing", "orders"]
    assert (row["lag"], row["queues"], row["queues_unknown"], row["complete"]) == (
        None,
        2,
        2,
        False,
    )
    assert row["online"] is True


def test_unknown_values_of_the_worst_client_stay_unknown(spark):
    """Nor what one broker keeps of its clients, and another does not."""
    rows = compute(
        spark,
        clients=[member(name, "orders", message_model="BROADCASTING") for name in ("c1", "c2")]
        + [member("c3", "orders", consumer_group="audit", message_model="BROADCASTING")],
        queue_offsets=[written(100), written(100, queue_id=1)],
        consumer_offsets=[
            read(10, client_id="c1", offset_store="client_file"),
            read(90, client_id="c2", offset_store="client_file"),
            read(95, client_id="c2", offset_store="client_file", queue_id=1),
            read(70, consumer_group="audit", offset_store="broker_broadcast"),
            read(100, consumer_group="away", offset_store="broker_broadcast"),
        ],
    )
    names = ("lag", "queues", "queues_unknown", "complete")
    assert [rows["billing", "orders"][name] for name in names] == [90, 2, 1, False]
    # The smallest pull position: nothing is known of what a client consumed.
    assert [rows["audit", "orders"][name] for name in names] == [30, 2, 2, False]
    away = rows["away", "orders"]
    assert [away[name] for name in names] == [0, 1, 1, False]
    assert (away["lag_is_lower_bound"], away["drain_seconds"]) == (True, None)
    assert (away["delay_ms"], away["delay_is_lower_bound"]) == (0, True)


def test_the_lowest_version_follows_the_order_of_versions(spark):
    versions = ["317", "V3", "V4_9_7", "V4_9_7_SNAPSHOT", "V4_9_10", "V5_0_0", "HIGHER_VERSION"]
    pairs = {f"{one}-{other}": (one, other) for one in versions for other in versions}
    rows = compute(
        spark,
        clients=[
            member(f"client-{version}", "orders", consumer_group=group, version=version)
            for group, pair in pairs.items()
            for version in pair
        ],
    )
    for group, pair in pairs.items():
        assert rows[group, "orders"]["client_version"] == min(pair, key=version_order)


def test_a_sum_beyond_64_bits_is_unknown(spark):
    huge = 2**63 - 1
    row = compute(
        spark,
        queue_offsets=[written(huge), written(huge, queue_id=1)],
        consumer_offsets=[read(0), read(0, queue_id=1)],
    )["billing", "orders"]
    assert (row["lag"], row["max_queue_lag"]) == (None, huge)
