"""``progress.queues`` on rows that can be checked by eye.

Tempting simplifications these tests break: clamping lag at zero (hides a commit ahead of the
broker), taking NULL for 0 (a queue never committed is not a queue fully consumed), and comparing
with the previous snapshot instead of the queue's own previous observation.
"""

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import pytest
from pyspark.sql import SparkSession

from spark.progress.queues import queues
from tests.support.table_rows import minute, minutes, raw_frames, snapshot_id

pytestmark = pytest.mark.spark


def compute(
    spark: SparkSession,
    written: list[dict[str, Any]],
    read: list[dict[str, Any]],
    brokers: list[dict[str, Any]] | None = None,
    window: tuple[float, float] = (0, 60),
    stores: Sequence[float] = (),
    nearest: Sequence[tuple[float, float]] | None = None,
) -> list[dict[str, Any]]:
    raw = raw_frames(
        spark,
        queue_offsets=[{"at": 0, "topic": "orders", "queue_id": 0} | row for row in written],
        consumer_offsets=[
            {
                "at": 0,
                "topic": "orders",
                "queue_id": 0,
                "consumer_group": "billing",
                "offset_store": "broker",
            }
            | row
            for row in read
        ],
        brokers=[{"at": 0, "broker_id": 0, "version": "V5_3_3"} | row for row in brokers or []],
    )
    sources = None
    files = {}
    if nearest is not None:
        files = {row["at"]: "local_offsets" for row in read if "client_id" in row}
    if stores or files:
        of_stores = [(snapshot_id(at), "store", 5_000) for at in stores]
        of_stores += [(snapshot_id(at), source, 5_000) for at, source in files.items()]
        sources = spark.createDataFrame(
            of_stores, "snapshot_id string, source string, staleness_ms bigint"
        )
    places = None
    if nearest is not None:
        near = [(snapshot_id(at), "broker-a", snapshot_id(of)) for at, of in nearest]
        places = spark.createDataFrame(near, "snapshot_id string, broker string, nearest_id string")
    frame = queues(raw, minutes(*window), sources=sources, nearest=places)
    rows = [row.asDict() for row in frame.collect()]
    return sorted(rows, key=lambda row: row["observed_at"])


@pytest.mark.parametrize(
    ("minimum", "maximum", "committed", "pulled", "expected"),
    [
        pytest.param(0, 100, 60, 90, (40, 30, 10, 0, 40, 40, "OK"), id="part in flight"),
        pytest.param(0, 100, 100, 100, (0, 0, 0, 0, 0, 0, "OK"), id="all consumed"),
        pytest.param(0, 100, 60, None, (40, None, None, 0, 40, 40, "OK"), id="pull not known"),
        pytest.param(
            10,
            100,
            None,
            50,
            (None, None, 50, None, None, 90, "NEVER_COMMITTED"),
            id="never committed",
        ),
        pytest.param(70, 100, 60, 90, (40, 30, 10, 10, 30, 30, "LOST"), id="expired unconsumed"),
        pytest.param(100, 100, 60, 60, (40, 0, 40, 40, 0, 0, "LOST"), id="all expired unconsumed"),
        pytest.param(
            0, 100, 120, 120, (-20, 0, -20, 0, 0, 0, "AHEAD_OF_BROKER"), id="ahead of broker"
        ),
    ],
)
def test_counts_and_condition(spark, minimum, maximum, committed, pulled, expected):
    written = [{"min_offset": minimum, "max_offset": maximum}]
    (row,) = compute(spark, written, [{"consumer_offset": committed, "pull_offset": pulled}])
    names = ("lag", "inflight", "available", "lost", "readable_lag", "lag_upper", "condition")
    assert tuple(row[name] for name in names) == expected


STORED = minute(-2)


@pytest.mark.parametrize(
    ("offsets", "stored", "requested", "delay", "source"),
    [
        pytest.param((0, 100, 100), STORED, None, 0, "exact", id="nothing left"),
        pytest.param((0, 100, 99), STORED, None, 120_000, "exact", id="only the newest is left"),
        pytest.param((0, 100, 60), STORED, None, 120_000, "at_least", id="older ones"),
        pytest.param((0, 100, 60), STORED, minute(-5), 300_000, "exact", id="requested"),
        pytest.param((99, 100, 60), STORED, None, 120_000, "exact", id="all but the newest lost"),
        pytest.param((100, 100, 60), STORED, None, 0, "exact", id="nothing readable left"),
        pytest.param((0, 100, 120), STORED, None, None, None, id="ahead of the broker"),
        pytest.param((0, 100, None), STORED, None, None, None, id="never committed"),
        pytest.param((0, 100, 99), None, None, None, None, id="the broker did not report"),
        pytest.param((0, 100, 99), minute(1), None, None, None, id="the broker's clock is ahead"),
    ],
)
def test_delay(spark, offsets, stored, requested, delay, source):
    minimum, maximum, committed = offsets
    written = [{"min_offset": minimum, "max_offset": maximum, "newest_stored_at": stored}]
    read = [{"consumer_offset": committed, "first_unconsumed_at": requested}]
    (row,) = compute(spark, written, read)
    assert (row["delay_ms"], row["delay_source"]) == (delay, source)
    assert row["delay_error_ms"] == (0 if source == "exact" else None)


def test_spans_are_zero_where_the_count_is(spark):
    written = [{"min_offset": 0, "max_offset": 100, "newest_stored_at": minute(-1)}]
    everything_out = {
        "consumer_offset": 60,
        "pull_offset": 100,
        "first_unconsumed_at": minute(-4),
        "consumer_group": "everything-out",
    }
    nothing_out = everything_out | {"pull_offset": 60, "consumer_group": "nothing-out"}
    rows = {
        row["consumer_group"]: row for row in compute(spark, written, [everything_out, nothing_out])
    }
    spans = ("lag_span_ms", "inflight_span_ms", "available_span_ms")
    assert [rows["everything-out"][name] for name in spans] == [180_000, 180_000, 0]
    assert [rows["nothing-out"][name] for name in spans] == [180_000, 0, 180_000]


def test_rates_and_drain_against_the_previous_observation(spark):
    written = [
        {"at": 0, "min_offset": 0, "max_offset": 100},
        {"at": 2, "min_offset": 0, "max_offset": 220},
    ]
    read = [
        {"at": 0, "consumer_offset": 10, "pull_offset": 30},
        {"at": 2, "consumer_offset": 145, "pull_offset": 20},
    ]
    first, second = compute(spark, written, read)
    rates = ("produce_tps", "consume_tps", "pull_tps", "drain_seconds")
    assert [first[name] for name in rates] == [None] * 4
    # 120 written and 135 read in 120 s; the pull offset went back; 75 left at an eighth of a
    # message a second more than is written.
    assert [second[name] for name in rates] == [1.0, 1.125, None, 600.0]


def test_what_a_group_that_keeps_up_leaves_has_no_time_to_drain(spark):
    written = [
        {"at": 0, "min_offset": 0, "max_offset": 1000},
        {"at": 1, "min_offset": 0, "max_offset": 2200},
    ]
    read = [{"at": 0, "consumer_offset": 990}, {"at": 1, "consumer_offset": 2192}]
    row = compute(spark, written, read)[1]
    # A lag of 8 at 20/s, and 0.03/s more read than written: 240 s would be chance.
    assert (row["lag"], row["produce_tps"], row["drain_seconds"]) == (8, 20.0, None)


def test_a_long_gap_has_a_condition_without_rate(spark):
    written = [
        {"at": 0, "min_offset": 0, "max_offset": 100},
        {"at": 11, "min_offset": 0, "max_offset": 40},
    ]
    read = [{"at": 0, "consumer_offset": 10}, {"at": 11, "consumer_offset": 40}]
    row = compute(spark, written, read)[1]
    assert row["consume_tps"] is None
    assert row["condition"] == "RECREATED"
    assert (row["previous_max_offset"], row["previous_consumer_offset"]) == (100, 10)


def test_a_rewound_commit_has_no_rate(spark):
    written = [{"at": at, "min_offset": 0, "max_offset": 100} for at in (0, 1)]
    read = [{"at": 0, "consumer_offset": 90}, {"at": 1, "consumer_offset": 20}]
    row = compute(spark, written, read)[1]
    assert (row["condition"], row["consume_tps"], row["produce_tps"]) == ("REWOUND", None, 0.0)


def test_snapshots_before_the_window_are_previous_observations_only(spark):
    written = [{"at": at, "min_offset": 0, "max_offset": 60 * at} for at in (1, 2)]
    read = [{"at": at, "consumer_offset": 0} for at in (1, 2)]
    (row,) = compute(spark, written, read, window=(2, 3))
    assert row["produce_tps"] == 1.0


def test_system_topics_and_groups_stay_in_raw(spark):
    written = [
        {"topic": name, "min_offset": 0, "max_offset": 1}
        for name in ("orders", "RMQ_SYS_TRANS_HALF_TOPIC", "rmq_sys_wheel_timer")
    ]
    read = [
        {"topic": "orders", "consumer_group": "CID_RMQ_SYS_TRANS", "consumer_offset": 0},
        {"topic": "RMQ_SYS_TRANS_HALF_TOPIC", "consumer_offset": 0},
        {"topic": "rmq_sys_wheel_timer", "consumer_offset": 0},
    ]
    assert compute(spark, written, read) == []


def test_topics_named_after_brokers_are_of_their_cluster_only(spark):
    raw = raw_frames(
        spark,
        queue_offsets=[
            {"at": 0, "cluster": cluster, "topic": topic, "queue_id": 0, "max_offset": 1}
            for cluster in ("lab", "other")
            for topic in ("orders", "broker-a")
        ],
        consumer_offsets=[
            {"at": 0, "cluster": cluster, "topic": topic, "queue_id": 0, "consumer_group": "g"}
            for cluster in ("lab", "other")
            for topic in ("orders", "broker-a")
        ],
    )
    rows = queues(raw, minutes(0, 1), system_topics=(("lab", "broker-a"),)).collect()
    assert {(row.cluster, row.topic) for row in rows} == {
        ("lab", "orders"),
        ("other", "orders"),
        ("other", "broker-a"),
    }


TIERED = {"messageStorePlugIn": "org.apache.rocketmq.tieredstore.TieredMessageStore"}
KEPT_LONG = TIERED | {"tieredStoreFileReservedTime": "240", "tieredStorageLevel": "NOT_IN_DISK"}


@pytest.mark.parametrize(
    ("retention_hours", "disk_ratio", "config", "expected"),
    [
        (72, 0.5, None, 71 * 3600.0),
        (1, 0.5, None, 0.0),
        # Over diskMaxUsedSpaceRatio a broker deletes expired files at once, and no others.
        (72, 0.75, {"diskMaxUsedSpaceRatio": "75"}, 71 * 3600.0),
        (72, 0.84, {"diskMaxUsedSpaceRatio": "50"}, 71 * 3600.0),
        (72, 0.85, None, 0.0),
        (72, 0.6, {"diskSpaceCleanForciblyRatio": "50"}, 0.0),
        (72, 0.85, {"diskSpaceCleanForciblyRatio": "95"}, 0.0),
        (72, 0.85, {"diskSpaceCleanForciblyRatio": "much"}, 0.0),
        (72, 0.95, {"cleanFileForciblyEnable": "false"}, 71 * 3600.0),
        (999_999, None, None, 999_998 * 3600.0),  # kept for ever
        (None, 0.85, None, 0.0),
        (None, None, None, None),
        # A tiered store has what the local files no longer have.
        (1, 0.5, KEPT_LONG, 239 * 3600.0),
        (1, 0.95, KEPT_LONG, 239 * 3600.0),
        (480, 0.5, KEPT_LONG, 479 * 3600.0),
        (1, 0.5, KEPT_LONG | {"tieredStorageLevel": "DISABLE"}, 0.0),
        (1, 0.5, KEPT_LONG | {"messageStorePlugIn": ""}, 0.0),
        (1, 0.5, TIERED, None),
    ],
)
def test_loss_in_seconds(spark, retention_hours, disk_ratio, config, expected):
    written = [{"min_offset": 0, "max_offset": 100}]
    requested = minute(0) - timedelta(hours=1)
    (row,) = compute(
        spark,
        written,
        [{"consumer_offset": 60, "first_unconsumed_at": requested}],
        [
            {"broker_id": 0, "retention_hours": retention_hours, "disk_ratio": disk_ratio}
            | {"config": config}
        ],
    )
    assert row["loss_in_seconds"] == expected


def test_observations_of_different_sources_never_follow_each_other(spark):
    """A store's commits are seconds old: beside live ones they are neither a rewind nor a rate."""
    commits = [(0, 9000), (1, 7500), (2, 9120), (3, 8100)]
    rows = compute(
        spark,
        [{"at": at, "min_offset": 0, "max_offset": 10_000 + 60 * at} for at, _ in commits],
        [{"at": at, "consumer_offset": offset} for at, offset in commits],
        stores=(1, 3),
    )
    assert [row["condition"] for row in rows] == ["OK"] * 4
    assert [row["previous_consumer_offset"] for row in rows] == [None, None, 9000, 7500]
    assert [row["consume_tps"] for row in rows] == [None, None, 1.0, 5.0]
    assert [row["produce_tps"] for row in rows] == [None, None, 1.0, 1.0]


def test_staleness_of_stored_commits_adds_to_the_error(spark):
    written = [{"at": at, "min_offset": 0, "max_offset": 100 * (at + 1)} for at in (0, 1, 2, 3)]
    for row in written:
        row["newest_stored_at"] = minute(row["at"])
    read = [{"at": at, "consumer_offset": 250 if at == 2 else 100 * at + 50} for at in range(4)]
    rows = compute(spark, written, [*read[:3], {"at": 3, "consumer_offset": 400}], stores=(1, 2, 3))
    assert [row["delay_error_ms"] for row in rows] == [None, None, 65_000, 0]
    assert [row["delay_source"] for row in rows[2:]] == ["interpolated", "exact"]


def test_a_skew_that_no_clock_can_have_dates_nothing(spark):
    written = [{"min_offset": 0, "max_offset": 100, "newest_stored_at": minute(-1)}]
    (row,) = compute(spark, written, [{"consumer_offset": 99}], [{"clock_skew_ms": 2**62}])
    assert (row["lag"], row["newest_at"], row["delay_ms"]) == (1, None, None)


@pytest.mark.parametrize("skew", [-300_000, 300_000])
def test_the_skew_of_the_brokers_clock_is_removed(spark, skew):
    """Store times are by the broker's clock; delays are by ours, with half of the round trip."""
    by_broker = timedelta(milliseconds=skew)
    written = [{"min_offset": 0, "max_offset": 100, "newest_stored_at": minute(-1) + by_broker}]
    requested = {"consumer_offset": 60, "first_unconsumed_at": minute(-2) + by_broker}
    newest = {"consumer_offset": 99, "consumer_group": "newest"}
    nothing = {"consumer_offset": 100, "consumer_group": "nothing"}
    clock = {"clock_skew_ms": skew, "clock_error_ms": 7}
    rows = compute(spark, written, [requested, newest, nothing], [clock])
    bodies = {row["consumer_group"]: row for row in rows}
    delays = ("delay_ms", "delay_source", "delay_error_ms")
    assert [bodies["billing"][name] for name in delays] == [120_000, "exact", 7]
    assert [bodies["newest"][name] for name in delays] == [60_000, "exact", 7]
    assert [bodies["nothing"][name] for name in delays] == [0, "exact", 0]
    assert {row["newest_at"].timestamp() for row in rows} == {minute(-1).timestamp()}


def test_each_observation_has_the_skew_of_its_own_moment(spark):
    """A clock that was set right between two observations moves no message."""
    behind = timedelta(minutes=5)
    written = [
        {"at": 0, "min_offset": 0, "max_offset": 100, "newest_stored_at": minute(0) - behind},
        {"at": 10, "min_offset": 0, "max_offset": 200, "newest_stored_at": minute(10)},
    ]
    read = [{"at": at, "consumer_offset": 149} for at in (0, 10)]
    clocks = [
        {"at": 0, "clock_skew_ms": -300_000, "clock_error_ms": 9},
        {"at": 10, "clock_skew_ms": 0, "clock_error_ms": 2},
    ]
    _, row = compute(spark, written, read, clocks)
    assert (row["delay_ms"], row["delay_source"]) == (300_000, "interpolated")
    assert row["delay_error_ms"] == 600_000 + 2


OF_FILE = {"client_id": "c-1", "offset_store": "client_file"}


def test_the_rate_of_writes_beside_offset_files_is_that_of_the_queues_own_step(spark):
    written = [{"at": at, "min_offset": 0, "max_offset": end} for at, end in ((0, 1000), (1, 1600))]
    files = [{"at": at, "consumer_offset": 900, **OF_FILE} for at in (4, 5)]
    of_broker = [{"at": at, "consumer_offset": 900} for at in (0, 1)]
    rows = compute(spark, written, of_broker + files, nearest=[(4, 1), (5, 1)])
    rates = {row["observed_at"].minute: row["produce_tps"] for row in rows if row["client_id"]}
    assert rates == {4: 10.0, 5: 10.0}


def test_offset_files_meet_queues_of_the_nearest_snapshot(spark):
    written = [
        {"at": at, "min_offset": 0, "max_offset": 100 + 60 * at, "newest_stored_at": minute(at)}
        for at in (0, 2)
    ]
    of_broker = [{"at": at, "consumer_offset": 10, "consumer_group": "live"} for at in (0, 2)]
    of_files = [{"at": at, "consumer_offset": 95, **OF_FILE} for at in (1, 3)]
    rows = compute(spark, written, of_broker + of_files, nearest=[(1, 0), (3, 2)])
    live = [row for row in rows if row["consumer_group"] == "live"]
    files = [row for row in rows if row["consumer_group"] == "billing"]
    assert [row["queue_offsets_at"] for row in live] == [None, None]
    seen_at = [row["queue_offsets_at"].timestamp() for row in files]
    assert seen_at == [minute(0).timestamp(), minute(2).timestamp()]
    assert [(row["max_offset"], row["lag"], row["condition"]) for row in files] == [
        (100, 5, "OK"),
        (220, 125, "OK"),
    ]
    assert [row["delay_ms"] for row in live] == [None, 120_000]


def test_files_of_clients_without_a_near_snapshot_are_unknown(spark):
    written = [{"at": 0, "min_offset": 0, "max_offset": 100}]
    read = [{"at": 30, "consumer_offset": 95, **OF_FILE}]
    (row,) = compute(spark, written, read, nearest=[])
    assert (row["consumer_offset"], row["max_offset"], row["lag"]) == (95, None, None)
    assert (row["readable_lag"], row["delay_ms"], row["queue_offsets_at"]) == (None, None, None)


def test_the_nearest_snapshot_may_lie_before_the_window(spark):
    written = [{"at": at, "min_offset": 0, "max_offset": 100 * (at + 1)} for at in (0, 1)]
    read = [{"at": 2, "consumer_offset": 150, **OF_FILE}]
    (row,) = compute(spark, written, read, window=(2, 3), nearest=[(2, 1)])
    assert (row["max_offset"], row["lag"], row["delay_source"]) == (200, 50, "interpolated")


SECOND = 1 / 60


def test_rates_reach_back_over_an_observation_too_close(spark):
    """A batch of 30 between two snapshots a second apart is no rate of 30 a second."""
    instants = (0, 0.5, 0.5 + SECOND, 0.5 + 9 * SECOND, 0.5 + 10 * SECOND)
    offsets = ((0, 0), (300, 150), (330, 180), (400, 240), (400, 250))
    rows = compute(
        spark,
        [{"at": at, "max_offset": end} for at, (end, _) in zip(instants, offsets, strict=True)],
        [
            {"at": at, "consumer_offset": commit, "pull_offset": commit}
            for at, (_, commit) in zip(instants, offsets, strict=True)
        ],
    )
    produced = [None, 300 / 30, 330 / 31, 400 / 39, 100 / 10]
    consumed = [None, 150 / 30, 180 / 31, 240 / 39, 100 / 10]
    assert [row["produce_tps"] for row in rows] == [
        value if value is None else pytest.approx(value) for value in produced
    ]
    for name in ("consume_tps", "pull_tps"):
        assert [row[name] for row in rows] == [
            value if value is None else pytest.approx(value) for value in consumed
        ]
    assert [row["previous_max_offset"] for row in rows] == [None, 0, 300, 330, 400]


def test_an_offset_that_went_back_between_has_no_rate(spark):
    """Set back and forward again since the base: what was consumed in between is not known."""
    instants = (0, 0.5, 0.5 + SECOND, 0.5 + 2 * SECOND)
    rows = compute(
        spark,
        [{"at": at, "max_offset": 1000} for at in instants],
        [
            {"at": at, "consumer_offset": commit}
            for at, commit in zip(instants, (500, 600, 100, 700), strict=True)
        ],
    )
    assert [row["consume_tps"] for row in rows] == [None, pytest.approx(100 / 30), None, None]
    assert [row["condition"] for row in rows] == ["OK", "OK", "REWOUND", "OK"]
