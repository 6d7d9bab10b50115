"""Group features: columns that alert rules may use besides those of ``progress.groups``.

A feature is joined to the rows of groups by snapshot, and only when an alert rule names one of its
columns. NULL means unknown: clients report queues and subscriptions in deep snapshots only.

Burn rates are computed from the whole minutes of objectives before the minute of a snapshot. They
are the same whenever the snapshot is computed: by its own tick, by a tick with many snapshots, and
by a backfill. The row of its hour as it stands may hold minutes after it.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta

from pyspark.sql import Column, DataFrame
from pyspark.sql import Window as SparkWindow
from pyspark.sql import functions as F

from spark.columns import with_new
from spark.tuning import small
from tidemark.lake.bounds import names_in
from tidemark.lake.clocks import HOUR, MICROSECOND, Window
from tidemark.lake.schema import Table
from tidemark.lake.tables import progress, raw
from tidemark.model.consumption import AssignmentState, EventKind
from tidemark.planning.history import LoadedSnapshot
from tidemark.rocketmq.names import StatsName
from tidemark.settings.objectives import LONGEST_HOURS, MinuteState
from tidemark.settings.sections import MEMORY

_USUAL_SUBJECT = ("cluster", "consumer_group", "topic")


def usual_values(baselines: DataFrame, snapshots: DataFrame) -> DataFrame:
    """Return the usual range of delay and lag at each snapshot, by group and topic.

    Args:
        baselines: rows of ``progress.baselines`` of the snapshots' hours.
        snapshots: rows of ``raw.snapshots``.
    """
    hour = F.timestamp_seconds(F.floor(F.unix_seconds("observed_at") / 3600) * 3600)
    judged = snapshots.select("snapshot_id", "cluster", hour.alias("hour"))
    return baselines.join(small(judged), ["cluster", "hour"]).select(
        "snapshot_id",
        *_USUAL_SUBJECT,
        "hour_of_week",
        F.col("delay_ms_low").alias("usual_low_delay_ms"),
        F.col("delay_ms_high").alias("usual_high_delay_ms"),
        F.col("lag_low").alias("usual_low_lag"),
        F.col("lag_high").alias("usual_high_lag"),
    )


_MINUTES = 60

_SUBJECT = ("cluster", "consumer_group", "topic")


def objective_minutes(objectives: DataFrame, snapshots: DataFrame) -> DataFrame:
    """Return the states of the last minutes before each snapshot, by group and topic.

    Args:
        objectives: rows of ``progress.objectives`` of the snapshots' hours and of `LONGEST_HOURS`
            before them.
        snapshots: rows of ``raw.snapshots``.

    Returns:
        A row per snapshot and subject with an objective. ``objective_minutes`` has, of each
        objective, its name, the share of minutes that may be bad, and the signs of the minutes of
        `LONGEST_HOURS`, the last one first before the snapshot's own. A minute without a row is
        unknown. ``missed_objectives`` has the names of those with a bad minute among them.
    """
    number = F.floor(F.unix_seconds("hour") / 3600)
    before = (
        SparkWindow.partitionBy(*_SUBJECT, "objective")
        .orderBy(number)
        .rangeBetween(-LONGEST_HOURS, -1)
    )
    earlier = F.map_from_entries(F.collect_list(F.struct(number, "minutes")).over(before))
    signs = [
        F.rpad(F.coalesce(signs, F.lit("")), _MINUTES, MinuteState.UNKNOWN)
        for signs in (
            *(earlier[number - back] for back in range(LONGEST_HOURS, 0, -1)),
            F.col("minutes"),
        )
    ]
    hours = objectives.select(
        *_SUBJECT,
        "objective",
        (1 - F.col("target")).alias("allowed"),
        number.alias("hour_number"),
        F.concat(*signs).alias("signs"),
    )
    minute = F.floor(F.unix_seconds("observed_at") / 60)
    judged = snapshots.select(
        "snapshot_id",
        "cluster",
        F.floor(minute / 60).alias("hour_number"),
        (minute % 60).cast("int").alias("minute_of_hour"),
    )
    length = LONGEST_HOURS * _MINUTES
    last = F.substr("signs", F.col("minute_of_hour") + 1, F.lit(length))
    of_objective = F.struct("objective", "allowed", last.alias("minutes"))
    missed = F.filter(
        "objective_minutes", lambda one: F.contains(one["minutes"], F.lit(MinuteState.BAD))
    )
    return (
        hours.join(small(judged), ["cluster", "hour_number"])
        .groupBy("snapshot_id", *_SUBJECT)
        .agg(F.array_sort(F.collect_list(of_objective)).alias("objective_minutes"))
        .transform(with_new, missed_objectives=F.transform(missed, lambda one: one["objective"]))
    )


GROWTH = "_growth"
"""Ending of a column that holds the growth of the column named before it."""

HISTORY = timedelta(minutes=10)
"""Time in which any complete observation before is compared."""

Outages = Mapping[str, LoadedSnapshot]
"""By id of a snapshot, the last complete snapshot of its cluster, where that is longer ago than
`HISTORY` (`tidemark.planning.history.complete_before`)."""

NO_OUTAGE: Outages = {}


def compares_growth(conditions: Iterable[str]) -> bool:
    """Return whether one of the SQL conditions names a growth."""
    return bool(_growths_in(conditions))


def _growths_in(conditions: Iterable[str]) -> set[str]:
    return {name for name in _names_in_any(conditions) if name.endswith(GROWTH)}


def _names_in_any(conditions: Iterable[str]) -> frozenset[str]:
    return frozenset[str]().union(*map(names_in, conditions))


def windows_to_compare(conditions: Iterable[str], window: Window, outages: Outages) -> list[Window]:
    """Return the windows of rows that SQL conditions on a window's rows compare."""
    if not compares_growth(conditions):
        return [window]
    reach = Window(window.start - HISTORY, window.end)
    instants = sorted({snapshot.observed_at for snapshot in outages.values()})
    return [*(Window.through(at, at) for at in instants if at not in reach), reach]


def with_growth(
    rows: DataFrame, key: Sequence[str], conditions: Iterable[str], outages: Outages
) -> DataFrame:
    """Add the growths that SQL conditions name; NULL without an observation to compare with.

    Args:
        rows: the rows of `windows_to_compare`, with ``snapshot_id, observed_at`` and ``complete``,
            whether a row covers its whole subject.
        key: the columns that name the observed subject.
        conditions: SQL conditions.
        outages: the outages in which the snapshots lie, or which they end.
    """
    growing = _growths_in(conditions)
    if not growing:
        return rows  # before the columns are read, for which Spark would resolve its plan
    names = [name for name in rows.columns if name + GROWTH in growing]
    if not names:
        return rows
    return with_new(
        rows,
        **{name + GROWTH: F.col(name) - _complete_before(name, key, outages) for name in names},
    )


def _complete_before(name: str, key: Sequence[str], outages: Outages) -> Column:
    """Return the value of a column at the last complete observation."""
    earlier = SparkWindow.partitionBy(*key).orderBy(F.unix_micros("observed_at"))
    value = F.when(F.col("complete"), F.col(name))
    minutes = earlier.rangeBetween(-HISTORY // MICROSECOND, -1)
    within_minutes = F.last(value, ignorenulls=True).over(minutes)
    if not outages:
        return within_minutes
    complete = sorted({snapshot.snapshot_id for snapshot in outages.values()})
    known = F.when(
        F.col("snapshot_id").isin(complete), F.struct("snapshot_id", value.alias("value"))
    )
    day = earlier.rangeBetween(-MEMORY // MICROSECOND, -1)
    newest = F.last(known, ignorenulls=True).over(day)
    expected = F.create_map(
        *[F.lit(text) for row, before in outages.items() for text in (row, before.snapshot_id)]
    )[F.col("snapshot_id")]
    # Only that snapshot: a tick does not read those before it, and would find less than a backfill.
    return F.coalesce(within_minutes, F.when(newest["snapshot_id"] == expected, newest["value"]))


FORMER_DAYS = 7
"""Former days whose throughput is compared; the earliest is the same day of the week."""

LEAST_DAYS = 3
"""Fewest known days for a usual throughput."""

SLACK = timedelta(minutes=15)
"""Longest distance of a deep snapshot from the same time of a former day."""

_TOPIC = ("cluster", "consumer_group", "topic")
_GROUP = ("cluster", "consumer_group")


@dataclass(frozen=True, kw_only=True)
class GroupFeature:
    """Columns that another table adds to the rows of groups.

    Attributes:
        table: the table that has them.
        columns: their names, none of them one of ``progress.groups``, and Spark's types.
        key: the columns that join them to rows of groups, besides ``snapshot_id``.
        derive: from rows of the table, one row per snapshot and key with the columns.
        days_back: how many former days are read too, at the same time of day.
        hours_back: how many hours before those of the window are read too, of a table of hours.
        also_reads: other tables that `derive` takes after its own, with the rows of the same
            snapshots.
        not_shown: columns that are too long for the evidence of alerts.
    """

    table: Table
    columns: Mapping[str, str]
    key: tuple[str, ...]
    derive: Callable[..., DataFrame]
    days_back: int = 0
    hours_back: int = 0
    also_reads: tuple[Table, ...] = ()
    not_shown: tuple[str, ...] = ()

    def windows(self, window: Window) -> list[Window]:
        """Return the windows whose rows the feature of a window is derived from."""
        if self.table.is_of_hours:
            hours = window.whole_hours()
            return [Window(hours.start - self.hours_back * HOUR, hours.end)]
        days = (timedelta(days=day) for day in range(1, self.days_back + 1))
        return [
            window,
            *(Window(window.start - day - SLACK, window.end - day + SLACK) for day in days),
        ]


def _rewinds(events: DataFrame) -> DataFrame:
    return (
        events.where(F.col("kind") == EventKind.REWOUND)
        .groupBy("snapshot_id", *_TOPIC)
        .agg(
            F.try_sum("messages").alias("rewound_messages"),
            F.max("likely_cause").alias("rewound_cause"),
        )
    )


def _assignment_counts(assignments: DataFrame) -> DataFrame:
    return assignments.groupBy("snapshot_id", *_TOPIC).agg(
        F.count(F.when(F.col("state") == AssignmentState.CONTESTED, 1)).alias("contested_queues"),
        F.count(F.when(F.col("state") == AssignmentState.UNOWNED, 1)).alias("unowned_queues"),
    )


def _assigned_queues(assignments: DataFrame) -> DataFrame:
    return assignments.groupBy("snapshot_id", *_GROUP).agg(F.count("*").alias("assigned_queues"))


def _idle_members(idle_clients: DataFrame) -> DataFrame:
    return idle_clients.groupBy("snapshot_id", *_TOPIC).agg(
        F.count("client_id").alias("idle_members"),
        F.array_sort(F.collect_set("reason")).alias("idle_reasons"),
    )


def _subscription_differences(subscriptions: DataFrame) -> DataFrame:
    return subscriptions.select(
        "snapshot_id",
        *_GROUP,
        F.when(F.col("consistent"), 0)
        .when(~F.col("consistent"), F.size("differences"))
        .alias("subscription_differences"),
        F.when(~F.col("consistent"), F.col("differences")).alias("differing_in"),
        F.when(~F.col("consistent"), _differing_topic()).alias("differing_topic"),
    )


def _differing_topic() -> Column:
    """Return the first topic that reporting members subscribe to differently.

    Without such a topic, return the first of all topics.
    """
    reported = F.filter("evidence.subscriptions", lambda member: member.isNotNull())
    subscriptions = F.flatten(reported)

    def compared(topic: Column) -> Column:
        of_topic = F.filter(subscriptions, lambda column: column["topic"] == topic)
        is_same = F.size(F.array_distinct(of_topic)) == 1
        alike = (F.size(of_topic) == F.size(reported)) & is_same
        return F.struct(alike.alias("alike"), topic.alias("topic"))

    return F.array_min(F.transform(F.array_distinct(subscriptions["topic"]), compared))["topic"]


def _usual_share(throughput: DataFrame, brokers: DataFrame) -> DataFrame:
    """Compare the messages that groups received in the last hour with the usual number then.

    The usual rate is the lower of two: the median of the former days, and the rate a week before,
    where it is known. So a group that rests at weekends is not compared with working days. The
    share is unknown where a broker was started within the hour, because its counters cover less.
    """
    hours = throughput.where(
        (F.col("stats_name") == StatsName.SERVED) & (F.col("stats_window") == "hour")
    )
    former = hours.select(
        *_TOPIC, F.col("observed_at").alias("former_at"), F.col("tps").alias("former_tps")
    )
    age = F.unix_seconds("observed_at") - F.unix_seconds("former_at")
    day = F.round(age / 86400)
    same_time = F.abs(age - day * 86400) <= SLACK.total_seconds()
    week_ago = F.avg(F.when(day == FORMER_DAYS, F.col("former_tps")))
    usual = F.least(F.median("former_tps"), week_ago)
    hour_ago = F.col("observed_at") - F.make_dt_interval(hours=F.lit(1))
    started = (
        brokers.where(F.col("booted_at") > hour_ago)
        .select("snapshot_id", F.lit(True).alias("started"))
        .distinct()
    )
    # Without usual throughput there is no drop.
    is_comparable = (F.col("usual_tps") > 0) & F.col("started").isNull()
    return (
        hours.select("snapshot_id", "observed_at", *_TOPIC, "tps")
        .join(former, list(_TOPIC))
        .where(same_time & day.between(1, FORMER_DAYS))
        .groupBy("snapshot_id", *_TOPIC, "tps")
        .agg(F.when(F.count_distinct(day) >= LEAST_DAYS, usual).alias("usual_tps"))
        .join(small(started), on="snapshot_id", how="left")
        .select(
            "snapshot_id",
            *_TOPIC,
            F.col("tps").alias("hourly_tps"),
            "usual_tps",
            F.when(is_comparable, F.col("tps") / F.col("usual_tps")).alias("usual_share"),
        )
    )


GROUP_FEATURES = (
    GroupFeature(
        table=progress.EVENTS,
        columns={"rewound_messages": "bigint", "rewound_cause": "string"},
        key=_TOPIC,
        derive=_rewinds,
    ),
    GroupFeature(
        table=progress.ASSIGNMENTS,
        columns={"contested_queues": "bigint", "unowned_queues": "bigint"},
        key=_TOPIC,
        derive=_assignment_counts,
    ),
    GroupFeature(
        table=progress.ASSIGNMENTS,
        columns={"assigned_queues": "bigint"},
        key=_GROUP,
        derive=_assigned_queues,
    ),
    GroupFeature(
        table=progress.IDLE_CLIENTS,
        columns={"idle_members": "bigint", "idle_reasons": "array<string>"},
        key=_TOPIC,
        derive=_idle_members,
    ),
    GroupFeature(
        table=progress.SUBSCRIPTIONS,
        columns={
            "subscription_differences": "int",
            "differing_in": "array<string>",
            "differing_topic": "string",
        },
        key=_GROUP,
        derive=_subscription_differences,
    ),
    GroupFeature(
        table=progress.THROUGHPUT,
        columns={"hourly_tps": "double", "usual_tps": "double", "usual_share": "double"},
        key=_TOPIC,
        derive=_usual_share,
        days_back=FORMER_DAYS,
        also_reads=(raw.BROKERS,),
    ),
    GroupFeature(
        table=progress.OBJECTIVES,
        columns={
            "objective_minutes": "array<struct<objective:string,allowed:double,minutes:string>>",
            "missed_objectives": "array<string>",
        },
        key=_TOPIC,
        derive=objective_minutes,
        hours_back=LONGEST_HOURS,
        also_reads=(raw.SNAPSHOTS,),
        not_shown=("objective_minutes",),
    ),
    GroupFeature(
        table=progress.BASELINES,
        columns={
            "hour_of_week": "int",
            **{
                f"usual_{end}_{of}": "double"
                for of in ("delay_ms", "lag")
                for end in ("low", "high")
            },
        },
        key=_TOPIC,
        derive=usual_values,
        also_reads=(raw.SNAPSHOTS,),
    ),
)


def features_in(conditions: Iterable[str]) -> list[GroupFeature]:
    """Return the features of which a condition names a column."""
    named = {name.removesuffix(GROWTH) for name in _names_in_any(conditions)}
    return [feature for feature in GROUP_FEATURES if named.intersection(feature.columns)]


def with_features(
    groups: DataFrame, features: Sequence[GroupFeature], rows: Mapping[str, DataFrame]
) -> DataFrame:
    """Add the columns of features to rows of groups, NULL where a feature has no row.

    Args:
        groups: rows of ``progress.groups``.
        features: the features to join.
        rows: rows of the features' tables, by full name; a table that is missing is empty.
    """
    for feature in features:
        if feature.table.name in rows:
            tables = (feature.table, *feature.also_reads)
            frame = feature.derive(*(rows[table.name] for table in tables))
            groups = groups.join(frame, ["snapshot_id", *feature.key], "left")
        else:
            nothing = {name: F.lit(None).cast(type) for name, type in feature.columns.items()}
            groups = with_new(groups, **nothing)
    return groups
