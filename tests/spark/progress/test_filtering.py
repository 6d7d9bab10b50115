"""Filtered lag: from samples of tags, from delivered messages, and where it is unknown."""

import pytest
from pyspark.sql import functions as F

from spark.columns import GROUP_TOPIC_ID
from spark.progress.filtering import Evidence, tag_hash, with_filtered_lag
from tests.support.table_rows import frame, snapshot_id
from tidemark.lake.tables import progress, raw

pytestmark = pytest.mark.spark

A, B = 65, 66
"""Hashes of the tags A and B: that of one letter is its code."""

NOW = 70


def subscribes(expression, kind="TAG"):
    return {"topic": "orders", "expression_type": kind, "expression": expression, "tags": []}


def queue(consumed, end=100, queue_id=0, **other):
    row = {"topic": "orders", "queue_id": queue_id, "min_offset": 0, "max_offset": end}
    row |= {"consumer_offset": consumed, "lag": None if consumed is None else end - consumed}
    return row | other


def sample(*entries, queue_id=0, at: float = NOW):
    return [
        {"at": at, "queue_id": queue_id, "position": position, "tags_code": code}
        for position, code in entries
    ]


def served(delivered, moved_tps, at=NOW, stats_window="minute"):
    row = {"at": at, "stats_name": "GROUP_GET_NUMS", "stats_window": stats_window}
    return row | {"sum": delivered, "tps_observed": moved_tps}


HALF = sample((50, A), (60, B), (70, A), (80, B))

CASES = {
    # name: what members ask for, queues, samples, counters; ratio, method
    "no filter": (["*"], [queue(20)], [], [], 1.0, "none"),
    "no filter, whatever was sampled": ([None, " "], [queue(20)], HALF, [], 1.0, "none"),
    "nobody online": ([], [queue(20)], HALF, [served(30, 1.0)], None, None),
    "half of a sample": (["A"], [queue(20)], HALF, [], 0.5, "tag_sample"),
    "both tags": (["A||B"], [queue(20)], HALF, [], 1.0, "tag_sample"),
    "another tag": (["C"], [queue(20)], HALF, [], 0.0, "tag_sample"),
    "only what is unconsumed": (
        ["A"],
        [queue(65)],
        sample((50, A), (70, B)),
        [],
        0.0,
        "tag_sample",
    ),
    "all was read": (["A"], [queue(90)], HALF, [], None, None),
    "no lag": (["A"], [queue(100)], HALF, [], None, None),
    "all is read by now": (
        ["A"],
        [queue(90), queue(65, at=40)],
        sample((50, B), (60, B), (70, A), (80, B), at=40),
        [],
        0.5,
        "tag_sample",
    ),
    "some was read before the sample": (
        ["A"],
        [queue(75), queue(65, at=40)],
        sample((50, B), (60, B), (70, B), (80, A), at=40),
        [],
        1.0,
        "tag_sample",
    ),
    "rewound since the sample": (
        ["A"],
        [queue(40), queue(65, at=40)],
        sample((50, B), (60, B), (70, A), (80, B), at=40),
        [],
        0.5,
        "tag_sample",
    ),
    "consumed nobody knows how far": (
        ["A"],
        [queue(90)],
        sample((50, B), (60, A), at=40),
        [],
        None,
        None,
    ),
    "begun again": (["A"], [queue(10, 55)], sample((50, A), (60, B)), [], 1.0, "tag_sample"),
    "weighed by lag": (  # (80 x 1/2 + 20 x 1) / 100
        ["A"],
        [queue(20), queue(80, queue_id=1)],
        [*HALF, *sample((90, A), queue_id=1)],
        [],
        0.6,
        "tag_sample",
    ),
    "lags whose sum exceeds 64 bits": (
        ["A"],
        [queue(0, 2**62 + 5), queue(0, 2**62 + 5, queue_id=1)],
        [*HALF, *sample((90, A), queue_id=1)],
        [],
        0.75,
        "tag_sample",
    ),
    "a queue without a sample": (
        ["A"],
        [queue(20), queue(0, queue_id=1)],
        HALF,
        [],
        0.5,
        "tag_sample",
    ),
    "the last sample": (["B"], [queue(0)], [*HALF, *sample((9, B), at=9)], [], 0.5, "tag_sample"),
    "an hour old": (["A"], [queue(0)], sample((9, A), at=10), [], 1.0, "tag_sample"),
    "too old": (["A"], [queue(0)], sample((9, A), at=9.9), [], None, None),
    "of later": (["A"], [queue(0)], sample((9, A), at=71), [], None, None),
    "no hashes": (["A"], [queue(0)], sample((9, None), (10, -(2**40))), [], None, None),
    "SQL": (
        [subscribes("x > 1", "SQL92")],
        [queue(0)],
        HALF,
        [served(45, 1.0)],
        0.75,
        "delivered_over_advanced",
    ),
    "no sample": (["A"], [queue(0)], [], [served(15, 0.5)], 0.5, "delivered_over_advanced"),
    "members differ": (
        ["A", "B"],
        [queue(0)],
        HALF,
        [served(15, 1.0)],
        0.25,
        "delivered_over_advanced",
    ),
    "delivered again": (["A"], [queue(0)], [], [served(90, 1.0)], 1.0, "delivered_over_advanced"),
    "nothing moved": (["A"], [queue(0)], [], [served(0, 0.0)], None, None),
    "moved in the hour": (
        ["A"],
        [queue(0)],
        [],
        [served(0, 0.0), served(1800, 1.0, stats_window="hour")],
        0.5,
        "delivered_over_advanced",
    ),
    "delivered before": (
        ["A"],
        [queue(0)],
        [],
        [served(15, 1.0, 40)],
        0.25,
        "delivered_over_advanced",
    ),
    "delivered long before": (["A"], [queue(0)], [], [served(15, 1.0, 9)], None, None),
    "history is short": (["A"], [queue(0)], [], [served(15, None)], None, None),
}
"""All of them on a topic of their own name, but for the topic's `orders` here."""


def placed(rows, name, **more):
    return [{"at": NOW, **row, "topic": name, **more} for row in rows]


def members(name, subscriptions):
    for number, subscription in enumerate(subscriptions):
        subscription = subscription if isinstance(subscription, dict) else subscribes(subscription)
        yield {
            "at": NOW,
            "consumer_group": "g",
            "client_id": f"{name}-{number}",
            "subscriptions": [subscription | {"topic": name}],
        }


def sum_of(rows):
    lags = [row["lag"] for row in rows if row["lag"] is not None and row.get("at", NOW) == NOW]
    total = sum(lags)
    return total if lags and total < 2**63 else None  # as `try_sum` gives it


@pytest.fixture(scope="module")
def computed(spark):
    groups, queues, clients, tags, counters = [], [], [], [], []
    for name, (subscriptions, lines, sampled, delivered, _, _) in CASES.items():
        groups += placed([{"readable_lag": sum_of(lines)}], name, consumer_group="g")
        queues += placed(lines, name, consumer_group="g")
        clients += members(name, subscriptions)
        tags += placed(sampled, name)
        counters += placed(delivered, name, consumer_group="g", stats_key=f"{name}@g")
    earlier = [row for row in queues if row["at"] != NOW]
    queues = [row for row in queues if row["at"] == NOW]
    evidence = Evidence(
        tags=frame(spark, raw.QUEUE_TAGS, tags),
        throughput=frame(spark, progress.THROUGHPUT, counters),
        sampled_queues=frame(spark, progress.QUEUES, earlier),
    )
    rows = with_filtered_lag(
        bare(frame(spark, progress.GROUPS, groups)),
        frame(spark, progress.QUEUES, queues),
        frame(spark, raw.CLIENTS, clients),
        evidence,
    ).collect()
    assert len(rows) == len(CASES)
    return {row["topic"]: row for row in rows}


def bare(groups):
    """The groups before filtering, about no single client."""
    return groups.drop(*(column.name for column in progress.FILTERING)).withColumn(
        "client_id", F.lit(None).cast("string")
    )


@pytest.mark.parametrize("name", CASES)
def test_the_share_that_a_groups_filter_passes(computed, name):
    *_, ratio, method = CASES[name]
    row = computed[name]
    assert (row["match_ratio"], row["match_method"]) == (pytest.approx(ratio), method)
    lag = row["readable_lag"]
    expected = None if ratio is None or lag is None else round(lag * ratio)
    assert row["filtered_lag"] == expected


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        # Wilson, 2 of 4: 0.5 +- 0.35; 0 of 4: 0 to 0.49; of 80 messages.
        ("half of a sample", (12, 68)),
        ("another tag", (0, 39)),
        ("both tags", (41, 80)),
        # 3 of 5, weighed; of 100 messages.
        ("weighed by lag", (23, 88)),
        ("no filter", (80, 80)),
        ("SQL", (None, None)),
        ("nobody online", (None, None)),
        ("no lag", (None, None)),
    ],
)
def test_the_interval(computed, name, expected):
    row = computed[name]
    assert (row["filtered_lag_low"], row["filtered_lag_high"]) == expected


def test_a_broadcasting_row_uses_its_own_clients_filter(spark):
    row = {"at": NOW, "consumer_group": "g", "topic": "orders"}
    clients = [
        row | {"client_id": name, "subscriptions": [subscribes("A")]} for name in ("far", "near")
    ]
    for client in clients:
        del client["topic"]
    queues = [row | queue(0, client_id="far"), row | queue(75, client_id="near")]
    tags = [row | {"topic": "orders"} for row in sample((10, A), (20, A), (80, B), (90, B))]
    groups = bare(frame(spark, progress.GROUPS, [row | {"readable_lag": 100}]))
    result = with_filtered_lag(
        groups.withColumn("client_id", F.lit("far")),
        frame(spark, progress.QUEUES, queues),
        frame(spark, raw.CLIENTS, clients),
        Evidence(tags=frame(spark, raw.QUEUE_TAGS, tags)),
    ).select(*GROUP_TOPIC_ID, "match_ratio", "filtered_lag")
    assert [tuple(row) for row in result.collect()] == [(snapshot_id(NOW), "g", "orders", 0.5, 50)]


def test_hashes_are_javas(spark):
    """Computed by `String.hashCode` of Java itself."""
    known = {
        "A": 65,
        "TagA": 2598919,
        "TagB": 2598920,
        "Aa": 2112,
        "BB": 2112,
        "order_paid_v2_zh": -800042449,
        "中文": 646394,
        "\U0001f600": 1772899,
    }
    frame_of = spark.createDataFrame([(tag,) for tag in known], "tag string")
    rows = frame_of.select("tag", tag_hash(F.col("tag")).alias("code")).collect()
    assert {row["tag"]: row["code"] for row in rows} == known
