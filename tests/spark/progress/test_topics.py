"""``progress.topics`` on rows that can be checked by eye.

Tempting simplifications these tests break: counting the queues that consumers read as all of them,
adding what nobody can read to what waits, and taking a broker that did not respond for one without
messages.
"""

import pytest

from spark.progress.timeline import timeline
from spark.progress.topics import topics
from tests.support.table_rows import frame, minute, minutes, raw_frames, snapshot_id
from tidemark.lake.tables import progress, raw

pytestmark = pytest.mark.spark


def written(at, queue_id, maximum, topic="orders", minimum=0, **columns):
    return {
        "at": at,
        "topic": topic,
        "queue_id": queue_id,
        "min_offset": minimum,
        "max_offset": maximum,
        "newest_stored_at": None if maximum is None else minute(at - 1),
    } | columns


def declared(at=0, topic="orders", read=4, write=4, perm=6, kind="normal", **columns):
    return {
        "at": at,
        "topic": topic,
        "read_queues": read,
        "write_queues": write,
        "perm": perm,
        "kind": kind,
    } | columns


def compute(
    spark, queues, configured, *, window=(0, 60), unreachable=(), hour_before=(), listed=None
):
    """Rows by minute and topic; each minute that is named anywhere has a snapshot."""
    instants = {row["at"] for row in (*queues, *configured)} | {at for at, *_ in unreachable}
    frames = raw_frames(
        spark,
        snapshots=[{"at": at} for at in sorted(instants)],
        queue_offsets=queues,
        topics=configured,
    )
    texts = "snapshot_id string, broker string"
    # Ticks of before have written the steps of before.
    steps = [
        step
        for at in sorted(instants)
        for step in timeline(frames.queue_offsets, minutes(at, at + 0.01)).toArrow().to_pylist()
    ]
    result = topics(
        frames,
        None if listed is None else frame(spark, raw.QUEUE_OFFSETS, listed),
        frame(spark, progress.TIMELINE, steps),
        spark.createDataFrame([(snapshot_id(at), "broker-a") for at in hour_before], texts),
        spark.createDataFrame(
            [(snapshot_id(at), broker, snapshot_id(last)) for at, broker, last in unreachable],
            f"{texts}, last_snapshot_id string",
        ),
        minutes(*window),
    )
    assert result.columns == list(progress.TOPICS.column_names)
    rows = result.toArrow().to_pylist()
    by_key = {(row["observed_at"], row["topic"]): row for row in rows}
    assert len(by_key) == len(rows)
    return by_key


def row_of(value, at=0, topic="orders"):
    return value[minute(at), topic]


def test_messages_beyond_the_read_queues_are_unreadable(spark):
    computed = compute(
        spark, [written(0, queue, 200) for queue in range(4)], [declared(read=2, write=4)]
    )
    row = row_of(computed)
    assert (row["messages"], row["unreadable_messages"]) == (800, 400)
    assert row["unreadable_reason"] == "BEYOND_READ_QUEUES"
    assert (row["queues"], row["complete"]) == (4, True)


def test_nobody_reads_without_permission(spark):
    row = row_of(compute(spark, [written(0, 0, 50, minimum=20)], [declared(read=1, perm=2)]))
    assert (row["messages"], row["unreadable_messages"]) == (30, 30)
    assert row["unreadable_reason"] == "NO_READ_PERMISSION"


def test_all_is_readable(spark):
    row = row_of(compute(spark, [written(0, queue, 9) for queue in range(4)], [declared()]))
    assert (row["messages"], row["unreadable_messages"], row["unreadable_reason"]) == (36, 0, None)


def test_empty_queues_beyond_give_no_reason(spark):
    row = row_of(compute(spark, [written(0, 0, 9), written(0, 1, 0)], [declared(read=1, write=2)]))
    assert (row["unreadable_messages"], row["unreadable_reason"]) == (0, None)


def test_without_a_configuration_it_is_unknown(spark):
    """With that of one of two brokers, what nobody can read is a sum of a part."""
    row = row_of(compute(spark, [written(0, 0, 9)], []))
    assert (row["messages"], row["unreadable_messages"], row["perm"]) == (9, None, None)
    assert row["complete"] is False
    queues = [written(0, 0, 5), written(0, 0, 7, broker="broker-b")]
    row = row_of(compute(spark, queues, [declared(read=1, write=1)]))
    assert (row["messages"], row["unreadable_messages"], row["complete"]) == (12, 0, False)


def test_queues_without_offsets_are_unknown(spark):
    """Ids of static topics do not count from 0: a queue beyond proves nothing."""
    row = row_of(compute(spark, [written(0, 7, None, minimum=None)], [declared(read=2, write=2)]))
    assert (row["messages"], row["unreadable_messages"], row["complete"]) == (None, None, False)


def test_a_topic_that_was_not_measured_is_unknown(spark):
    row = row_of(compute(spark, [], [declared()]))
    assert (row["messages"], row["queues"], row["complete"]) == (None, 0, False)
    assert row["read_queues"] == 4


def test_quarantined_queues_make_a_topic_incomplete(spark):
    valid = [written(0, 0, 9)]
    row = row_of(compute(spark, valid, [declared(read=2)], listed=[*valid, written(0, 1, -5)]))
    assert (row["messages"], row["complete"]) == (9, False)


def test_brokers_that_differ_are_listed(spark):
    computed = compute(
        spark,
        [written(0, 0, 5), written(0, 0, 7, broker="broker-b")],
        [declared(read=1, write=1), declared(read=1, write=2, perm=2, broker="broker-b")],
    )
    row = row_of(computed)
    assert (row["brokers"], row["read_queues"], row["write_queues"], row["perm"]) == (
        *(2, 1, None),
        None,
    )
    assert [tuple(item.values()) for item in row["by_broker"]] == [
        ("broker-a", 1, 1, 6),
        ("broker-b", 1, 2, 2),
    ]
    assert (row["messages"], row["unreadable_messages"]) == (12, 7)


def test_an_unreachable_broker_leaves_the_known_part(spark):
    a, b = {"broker": "broker-a"}, {"broker": "broker-b"}
    computed = compute(
        spark,
        [written(0, 0, 5, **a), written(0, 0, 7, **b), written(1, 0, 6, **a)],
        [
            *(declared(read=1, **value) for value in (a, b)),
            declared(topic="only_b", read=1, **b),
            declared(1, read=1, **a),
        ],
        window=(1, 60),
        unreachable=[(1, "broker-b", 0)],
    )
    row, only_b = row_of(computed, 1), row_of(computed, 1, "only_b")
    assert (row["messages"], row["brokers"], row["complete"]) == (6, 2, False)
    assert (only_b["messages"], only_b["unreadable_messages"]) == (None, None)
    assert (only_b["complete"], only_b["kind"]) == (False, "normal")


def test_rate_is_that_of_all_queues(spark):
    computed = compute(
        spark,
        [written(at, queue, 60 * at) for at in (0, 1) for queue in (0, 1)],
        [declared(at, read=2) for at in (0, 1)],
    )
    assert row_of(computed, 0)["produce_tps"] is None
    assert row_of(computed, 1)["produce_tps"] == 2.0
    assert row_of(computed, 1)["newest_at"] == minute(0)


DEAD = "%DLQ%billing"


def dead(spark, history, hour_before=(70,)):
    """Row of the last minute, of a dead-letter queue with (minute, min, max)."""
    computed = compute(
        spark,
        [written(at, 0, maximum, DEAD, minimum) for at, minimum, maximum in history],
        [declared(at, DEAD, read=1, write=1, kind="dlq") for at, *_ in history],
        window=(70, 71),
        hour_before=hour_before,
    )
    return row_of(computed, 70, DEAD)


def test_dead_letters_of_the_last_hour_are_counted(spark):
    row = dead(spark, [(5, 0, 3), (9, 0, 5), (10, 0, 6), (30, 0, 8), (70, 0, 12)])
    assert (row["messages"], row["added_last_hour"]) == (12, 6)


def test_nothing_was_added(spark):
    assert dead(spark, [(5, 0, 3), (9, 0, 3), (70, 0, 3)])["added_last_hour"] == 0


def test_a_topic_that_is_new_was_added_as_a_whole(spark):
    assert dead(spark, [(65, 0, 3), (70, 0, 4)])["added_last_hour"] == 4


@pytest.mark.parametrize(
    ("history", "hour_before"),
    [
        pytest.param([(65, 0, 3), (70, 0, 4)], (), id="nobody observed an hour ago"),
        pytest.param([(-60, 0, 3), (40, 0, 9), (70, 0, 9)], (70,), id="a long gap"),
    ],
)
def test_what_was_added_is_unknown(spark, history, hour_before):
    assert dead(spark, history, hour_before)["added_last_hour"] is None


def test_a_recreated_topic_counts_from_zero(spark):
    row = dead(spark, [(5, 0, 30), (9, 0, 30), (20, 0, 2), (70, 0, 5)])
    assert row["added_last_hour"] == 5


def test_the_oldest_dead_letter_is_dated(spark):
    """Message 3 came between minutes 5 and 9; the broker stored the fifth at minute 8."""
    row = dead(spark, [(5, 0, 3), (9, 0, 5), (70, 3, 5)])
    assert minute(5) <= row["oldest_at"] <= minute(8)
    assert row["oldest_at_is_upper_bound"] is False


def test_an_older_message_than_history_is_bounded(spark):
    row = dead(spark, [(5, 0, 3), (9, 0, 5), (70, 0, 5)])
    assert row["oldest_at"] == minute(4)
    assert row["oldest_at_is_upper_bound"] is True


def test_no_dead_letter_has_no_age(spark):
    row = dead(spark, [(5, 0, 3), (70, 3, 3)])
    assert (row["messages"], row["oldest_at"], row["oldest_at_is_upper_bound"]) == (0, None, None)


def test_other_topics_have_neither_age_nor_additions(spark):
    row = row_of(compute(spark, [written(0, 0, 9)], [declared(read=1)], hour_before=(0,)))
    assert (row["added_last_hour"], row["oldest_at"]) == (None, None)


def test_system_topics_have_no_row(spark):
    computed = compute(
        spark,
        [written(0, 0, 9, "SCHEDULE_TOPIC_XXXX"), written(0, 0, 9, "broker-a")],
        [declared(topic="broker-a", kind="system")],
    )
    assert not computed
