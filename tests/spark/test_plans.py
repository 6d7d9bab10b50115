"""Spark's plans of the computations of every tick, on frames of a few rows."""

import contextlib
import io
import re
from collections import Counter

import pytest
from pyspark.sql import functions as F

from spark.columns import CONSUMED_QUEUE, with_previous
from spark.progress.groups import groups
from spark.progress.health import with_health
from spark.progress.queues import queues
from spark.progress.timeline import OBSERVED_QUEUE, observations, with_source
from spark.session.configuration import COMPILED, INTERPRETED
from spark.tuning import CARRIED, IN_ONE_PART, inside, stored_in
from tests.support.plan_readers import reader_of
from tests.support.table_rows import frame, minute, minutes, raw_frames, snapshot_id
from tidemark.lake.catalog import Lake
from tidemark.lake.tables import progress, raw
from tidemark.planning.history import LoadedSnapshot
from tidemark.planning.lacking_parts import UnreachableBroker
from tidemark.planning.run_plan import Observation, RunPlan

pytestmark = pytest.mark.spark

PYTHON = {"ArrowEvalPython", "BatchEvalPython", "FlatMapGroupsInPandas", "MapInPandas"}
"""Rows would leave Spark for a Python process and come back, one by one or in batches."""

UNKEYED = {"BroadcastNestedLoopJoin", "CartesianProduct"}
"""Every row is compared with every other: what is cheap for ten groups never ends for thousands."""

WHOLE = 100_000_000
"""Characters of a plan, more than any has."""

WINDOW = minutes(1, 2)
PAIR = {"topic": "orders", "consumer_group": "billing"}
QUEUE_ROW = {"topic": "orders", "queue_id": 0}


def plan_text(value, mode="simple"):
    """Return Spark's text of the plan, whole, whereas a tick cuts it."""
    text, config = io.StringIO(), value.sparkSession.conf
    config.set("spark.sql.maxPlanStringLength", WHOLE)
    with contextlib.redirect_stdout(text):
        value.explain(mode)
    config.unset("spark.sql.maxPlanStringLength")
    return text.getvalue()


def nodes(value):
    """How many operators of each name the plan has."""
    # An operator's name follows the branches of the tree that it hangs on.
    return Counter(re.findall(r"^[ :+\-*(\d)]*([A-Z]\w+)", plan_text(value), re.MULTILINE))


def codes(value):
    """The code that Spark makes of the plan."""
    of_stages = plan_text(value, "codegen").split("== Subtree ")
    return [text.partition("Generated code:")[2] for text in of_stages[1:]]


def frames(spark):
    """A row of each kind now and a minute before; Spark plans nothing for a frame without any."""
    written = {**QUEUE_ROW, "min_offset": 0, "max_offset": 100}
    read = {**QUEUE_ROW, **PAIR, "consumer_offset": 60, "offset_store": "broker"}
    member = {
        "consumer_group": "billing",
        "client_id": "one",
        "message_model": "CLUSTERING",
        "subscriptions": [{"topic": "orders", "tags": []}],
    }
    rows = {
        "snapshots": {"status": "PARTIAL", "source": "remote"},
        "brokers": {"broker_id": 0, "version": "V5_3_3"},
        "queue_offsets": written,
        "consumer_offsets": read,
        "topics": {"topic": "orders"},
        "clients": member,
    }
    numbers = {name: [{"at": at, **row} for at in (0, 1)] for name, row in rows.items()}
    return raw_frames(spark, **numbers)


def of_groups(spark):
    """``progress.groups`` with their health, from ``progress.queues`` as they are stored."""
    observed = [{"at": at, **QUEUE_ROW, **PAIR, "lag_upper": 40} for at in (0, 1)]
    stored = frame(spark, progress.QUEUES, observed)
    gone = UnreachableBroker(snapshot_id(1), "broker-b", snapshot_id(0))
    numbered = [Observation(snapshot_id(at), at, {snapshot_id(1): 1 - at}) for at in (0, 1)]
    plan = RunPlan(window=WINDOW, unreachable=(gone,), observations=tuple(numbered))
    reader = reader_of(spark, plan)
    return with_health(
        groups(stored.where(inside(WINDOW)), frames(spark), reader.unreachable(), WINDOW),
        frame(spark, progress.GROUPS, [{"at": 0, **PAIR, "lag_upper": 40}]),
        stored,
        frame(spark, raw.CLIENT_QUEUES, [{"at": 1, **QUEUE_ROW, **PAIR, "client_id": "one"}]),
        reader.observations(),
        WINDOW,
    )


def of_queues(spark):
    """``progress.queues`` with a history to date messages from."""
    history = frame(
        spark, progress.TIMELINE, [{"observed_at": minute(-60), **QUEUE_ROW, "max_offset": 50}]
    )
    learned = {"at": 0, **QUEUE_ROW, **PAIR, "readable_lag": 40, "delay_source": "exact"}
    earlier = frame(spark, progress.QUEUES, [learned])
    return queues(frames(spark), WINDOW, timeline=history, earlier=earlier)


@pytest.mark.parametrize("computed", [of_queues, of_groups])
def test_no_row_leaves_spark_or_meets_every_other(spark, computed):
    counts = nodes(computed(spark))
    assert {"LocalTableScan", "Exchange"} <= counts.keys()
    assert counts.keys() & {"SortMergeJoin", "ShuffledHashJoin"}
    assert not counts.keys() & (PYTHON | UNKEYED)


def test_such_a_plan_would_be_seen(spark):
    rows = frames(spark).queue_offsets
    function = F.udf(lambda offset: offset + 1, "bigint")
    assert nodes(rows.withColumn("next", function("max_offset"))).keys() & PYTHON
    names = rows.select(F.col("topic").alias("name"))
    assert nodes(rows.join(names, F.length("name") > F.col("queue_id"))).keys() & UNKEYED


def test_queues_are_sorted_once_for_all_columns(spark):
    # Each further sort or shuffle would cost as much as reading the rows.
    raw_rows = frames(spark)
    offsets = ("min_offset", "max_offset")
    observed = with_source(raw_rows.queue_offsets, None)
    written = nodes(observations(with_previous(observed, OBSERVED_QUEUE, *offsets)))
    assert (written["Exchange"], written["Sort"]) == (1, 1)
    offsets = ("consumer_offset", "pull_offset")
    read = nodes(with_previous(raw_rows.consumer_offsets, CONSUMED_QUEUE, *offsets))
    assert (read["Exchange"], read["Sort"], read["Window"]) == (1, 1, 1)


@pytest.fixture
def in_several_parts(spark):
    """Plans as of windows that several tasks compute."""
    parts = "spark.sql.shuffle.partitions"
    token, before = IN_ONE_PART.set(False), spark.conf.get(parts)
    spark.conf.set(parts, "4")
    yield
    spark.conf.set(parts, before)
    IN_ONE_PART.reset(token)


@pytest.mark.usefixtures("in_several_parts")
def test_messages_are_dated_without_a_join(spark):
    # The one join is of consumers with their queues; one with the steps of queues would multiply
    # rows. Windows: four for what is written, two for what is read, two for the runs of steps,
    # two for the messages read, and two for the store times that stay; and one for the signs of
    # consume modes.
    counts = nodes(of_queues(spark))
    assert (counts["ShuffledHashJoin"], counts["SortMergeJoin"]) == (1, 0)
    assert counts["Window"] <= 13


@pytest.mark.usefixtures("in_several_parts")
def test_rows_of_queues_are_brought_together_once(spark):
    # One exchange of consumers, two of their queues (for the rows and for their steps), which
    # Spark reuses; the others are of members, topics, brokers and offsets to date.
    # Some of them bring together the few rows of signs of consume modes.
    plan = of_queues(spark)
    assert nodes(plan)["Exchange"] <= 13
    # Rows meet the steps of their queues in the parts where they are.
    after_union, union, _ = plan_text(plan).partition("Union")
    assert union and "Exchange" not in after_union


@pytest.fixture
def compiling(spark, session_home):
    """The session as for larger windows, on tables without a row."""
    Lake(session_home).catalog  # noqa: B018  makes the tables
    for name, value in COMPILED.items():
        spark.conf.set(name, value)
    yield spark
    for name, value in INTERPRETED.items():
        spark.conf.set(name, value)


def planned(at):
    """Return the run plan that computes the snapshot of a minute, with the snapshot before."""
    snapshot = LoadedSnapshot(
        snapshot_id=snapshot_id(at),
        cluster="lab",
        observed_at=minute(at),
        status="COMPLETE",
        brokers_read=frozenset({"broker-a"}),
    )
    numbers = (Observation(snapshot_id(at), 1, {snapshot_id(at): 0}),)
    before = (snapshot_id(at - 1),)
    return RunPlan(
        window=minutes(at, at + 1), snapshots=(snapshot,), previous=before, observations=numbers
    )


def stored_queues(spark, at):
    """``progress.queues`` of a minute, read as ticks do."""
    plan = planned(at)
    reader = reader_of(spark, plan)
    history = reader.hours(progress.TIMELINE, plan.dated)
    earlier = reader.only(progress.QUEUES, plan.previous)
    return queues(
        reader.raw(plan.previous, valid=()), plan.window, timeline=history, earlier=earlier
    )


def stored_groups(spark, at):
    """``progress.groups`` of a minute, read as ticks do."""
    plan = planned(at)
    reader = reader_of(spark, plan)
    mine = reader.rows(progress.QUEUES, plan.previous)
    return with_health(
        groups(mine, reader.raw(valid=()), reader.unreachable(), plan.window),
        reader.only(progress.GROUPS, plan.previous),
        mine,
        None,
        reader.observations(),
        plan.window,
    )


@pytest.mark.parametrize("computed", [stored_queues, stored_groups])
def test_every_tick_runs_the_same_code(compiling, computed):
    # Code that names its window would be compiled and warmed up at every tick.
    first, later = (codes(computed(compiling, at)) for at in (1, 2))
    assert len(first) > 10
    assert first == later


def test_code_that_names_its_window_would_be_seen(compiling):
    rows = compiling.table(raw.QUEUE_OFFSETS.name)
    first, later = (codes(rows.where(stored_in(minutes(at, at + 1)))) for at in (1, 2))
    assert first != later


@pytest.mark.usefixtures("in_several_parts")
def test_columns_that_dating_leaves_are_one_value_in_its_sorts(spark):
    # Spark takes the value apart below the sorts where nobody reads a field of it afterwards.
    plan = plan_text(of_queues(spark), "formatted")
    inputs = re.findall(r"\(\d+\) Sort.*\nInput \[(\d+)\]: \[(.*)\]", plan)
    widths = [int(width) for width, columns in inputs if f"{CARRIED}#" in columns]
    assert (len(widths), max(widths)) == (4, 25)
