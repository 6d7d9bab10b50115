"""What alert rules may ask of a group beside its row of ``progress.groups``.

Each addition is joined to the group's rows by snapshot, and only when a rule names one of its
columns. NULL means not known: members tell what they hold and subscribe to only in deep looks.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from lake.schema import Table
from lake.tables import progress, raw
from lake.window import Window

FORMER_DAYS = 7
"""Days back that throughput is compared with."""

LEAST_DAYS = 3
"""So many of them have to be known: of fewer, nobody can tell what is usual."""

SLACK = timedelta(minutes=15)
"""How far from the same time of a former day a deep look may lie."""

_TOPIC = ("cluster", "consumer_group", "topic")
_GROUP = ("cluster", "consumer_group")


@dataclass(frozen=True)
class Addition:
    """Columns that another table adds to the rows of groups.

    Attributes:
        table: where they come from.
        columns: their names, none of them one of ``progress.groups``, and Spark's types.
        key: what the rows share with those of groups, beside ``snapshot_id``.
        of: from rows of the table, one row per snapshot and key with the columns.
        days_back: former days whose rows, at the same time of day, are needed as well.
        asks: other tables that `of` takes after its own, with the rows of the same snapshots.
    """

    table: Table
    columns: Mapping[str, str]
    key: tuple[str, ...]
    of: Callable[..., DataFrame]
    days_back: int = 0
    asks: tuple[Table, ...] = ()

    def windows(self, window: Window) -> list[Window]:
        """The windows whose rows it needs for a window."""
        days = (timedelta(days=day) for day in range(1, self.days_back + 1))
        return [
            window,
            *(Window(window.start - day - SLACK, window.end - day + SLACK) for day in days),
        ]


def _rewound(events: DataFrame) -> DataFrame:
    return (
        events.where("kind = 'REWOUND'")
        .groupBy("snapshot_id", *_TOPIC)
        .agg(
            F.sum("messages").alias("rewound_messages"),
            F.max("likely_cause").alias("rewound_cause"),
        )
    )


def _assigned(assignments: DataFrame) -> DataFrame:
    return assignments.groupBy("snapshot_id", *_TOPIC).agg(
        F.count(F.when(F.col("state") == "CONTESTED", 1)).alias("contested_queues"),
        F.count(F.when(F.col("state") == "UNOWNED", 1)).alias("unowned_queues"),
    )


def _idle(idle_clients: DataFrame) -> DataFrame:
    return idle_clients.groupBy("snapshot_id", *_TOPIC).agg(
        F.count("client_id").alias("idle_members"),
        F.array_sort(F.collect_set("reason")).alias("idle_reasons"),
    )


def _subscribed(subscriptions: DataFrame) -> DataFrame:
    return subscriptions.select(
        "snapshot_id",
        *_GROUP,
        F.expr("CASE WHEN consistent THEN 0 WHEN NOT consistent THEN size(differences) END").alias(
            "subscription_differences"
        ),
        F.col("differences").alias("differing_in"),
        _differing_topic().alias("differing_topic"),
    )


def _differing_topic() -> Column:
    """The first topic that not all members who told ask for alike; if there is none, of all."""
    told = F.filter("evidence.subscriptions", lambda each: each.isNotNull())
    asked = F.flatten(told)

    def judged(topic: Column) -> Column:
        mine = F.filter(asked, lambda each: each["topic"] == topic)
        alike = (F.size(mine) == F.size(told)) & (F.size(F.array_distinct(mine)) == 1)
        return F.struct(alike.alias("alike"), topic.alias("topic"))

    return F.array_min(F.transform(F.array_distinct(asked["topic"]), judged))["topic"]


def _compared(throughput: DataFrame, brokers: DataFrame) -> DataFrame:
    """What groups were handed within the hour, as a share of what is usual at this time of day.

    A broker that was started within the hour has counted for less: the share is not known then.
    """
    hours = throughput.where("stats_name = 'GROUP_GET_NUMS' AND stats_window = 'hour'")
    former = hours.select(
        *_TOPIC, F.col("observed_at").alias("former_at"), F.col("tps").alias("former_tps")
    )
    age = F.unix_seconds("observed_at") - F.unix_seconds("former_at")
    day = F.round(age / 86400)
    same_time = F.abs(age - day * 86400) <= SLACK.total_seconds()
    usual = F.when(F.count_distinct(day) >= LEAST_DAYS, F.median("former_tps"))
    hour_ago = F.col("observed_at") - F.make_dt_interval(hours=F.lit(1))
    started = (
        brokers.where(F.col("booted_at") > hour_ago)
        .select("snapshot_id", F.lit(True).alias("started"))
        .distinct()
    )
    # A group that usually reads nothing has nothing to drop from.
    is_comparable = (F.col("usual_tps") > 0) & F.col("started").isNull()
    return (
        hours.select("snapshot_id", "observed_at", *_TOPIC, "tps")
        .join(former, list(_TOPIC))
        .where(same_time & day.between(1, FORMER_DAYS))
        .groupBy("snapshot_id", *_TOPIC, "tps")
        .agg(usual.alias("usual_tps"))
        .join(F.broadcast(started), on="snapshot_id", how="left")
        .select(
            "snapshot_id",
            *_TOPIC,
            F.col("tps").alias("hourly_tps"),
            "usual_tps",
            F.when(is_comparable, F.col("tps") / F.col("usual_tps")).alias("usual_share"),
        )
    )


ADDITIONS = (
    Addition(
        progress.EVENTS,
        {"rewound_messages": "bigint", "rewound_cause": "string"},
        _TOPIC,
        _rewound,
    ),
    Addition(
        progress.ASSIGNMENTS,
        {"contested_queues": "bigint", "unowned_queues": "bigint"},
        _TOPIC,
        _assigned,
    ),
    Addition(
        progress.IDLE_CLIENTS,
        {"idle_members": "bigint", "idle_reasons": "array<string>"},
        _TOPIC,
        _idle,
    ),
    Addition(
        progress.SUBSCRIPTIONS,
        {
            "subscription_differences": "int",
            "differing_in": "array<string>",
            "differing_topic": "string",
        },
        _GROUP,
        _subscribed,
    ),
    Addition(
        progress.THROUGHPUT,
        {"hourly_tps": "double", "usual_tps": "double", "usual_share": "double"},
        _TOPIC,
        _compared,
        days_back=FORMER_DAYS,
        asks=(raw.BROKERS,),
    ),
)


def additions(conditions: Iterable[str]) -> list[Addition]:
    """Those of which a condition names a column."""
    text = " ".join(conditions)
    return [each for each in ADDITIONS if any(name in text for name in each.columns)]


def join(groups: DataFrame, added: Sequence[Addition], rows: Mapping[str, DataFrame]) -> DataFrame:
    """Rows of groups with the columns of the additions, NULL where there is no row of theirs.

    Args:
        groups: rows of ``progress.groups``.
        added: what to join.
        rows: of the additions' tables, by full name; one that is not there has none.
    """
    for each in added:
        if each.table.name in rows:
            found = each.of(*(rows[table.name] for table in (each.table, *each.asks)))
            groups = groups.join(found, ["snapshot_id", *each.key], "left")
        else:
            nothing = {name: F.lit(None).cast(type) for name, type in each.columns.items()}
            groups = groups.withColumns(nothing)
    return groups
