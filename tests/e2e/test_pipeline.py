"""Three hours of a cluster's life, tick by tick, then computed again: the rows must be the same.

No broker is needed: ticks load landed snapshots of any origin.
"""

import html
import json
from dataclasses import fields
from datetime import UTC, datetime, timedelta

import dagster as dg
import pytest

from assets.metadata import key_of
from assets.partitions import partition_key
from tests.support.cluster_history import (
    CLUSTER,
    COMPUTED,
    GONE_AT,
    PAST,
    computed,
    offsets,
    put,
    rows,
    snapshot,
)
from tests.support.homes import dagster_job, run
from tidemark.lake.clocks import HOUR, Window, floor_hour
from tidemark.lake.retention import remember_raw_since
from tidemark.lake.tables import TABLES, progress, raw
from tidemark.live.lag import LARGEST, group_rows
from tidemark.rocketmq.records import Snapshot

pytestmark = pytest.mark.spark

START = floor_hour(datetime.now(UTC)) - 8 * HOUR
HOURS = Window(START, START + 3 * HOUR)
AFTER = Window(START + 3 * HOUR, START + 4 * HOUR)

LATE = PAST[3]
"""Lands when all others are computed."""

ARRIVALS = (PAST[:1], (*PAST[1:3], *PAST[4:8]), PAST[8:])
"""Snapshots that land before each tick."""


@pytest.fixture(scope="module")
def ticked(warm_home):
    """The lake after a tick for each arrival, without the late one."""
    for minutes in ARRIVALS:
        put(warm_home.home, START, minutes)
        warm_home.tick()
    return warm_home.lake


def runs(home, before=()):
    with dg.DagsterInstance.from_config(str(home.dagster)) as instance:
        return [run for run in instance.get_runs() if run.run_id not in before]


def at(minute):
    return snapshot(START, minute).observed_at


def of(item, minute, **equal):
    """The rows of a minute with these values."""
    expected_row = {"observed_at": at(minute)} | equal
    return [row for row in item if all(row[name] == value for name, value in expected_row.items())]


def test_ticks_load_and_compute_everything_that_has_landed(ticked):
    landed = {at(minute) for minutes in ARRIVALS for minute in minutes}
    for table in (raw.SNAPSHOTS, progress.SNAPSHOTS):
        assert {row["observed_at"] for row in rows(ticked, table.name)} == landed
    assert {row["observed_at"] for row in rows(ticked, "progress.groups")} == landed
    whole = {at(minute) for minutes in ARRIVALS for minute in minutes if not minute.corrupt}
    assert {row["observed_at"] for row in rows(ticked, "progress.queues")} == whole


def test_dagster_shows_the_hours_that_were_computed(ticked):
    """The ticks ran hours later, and each but the first caught up."""
    hours = {partition_key(at(minute)) for minutes in ARRIVALS for minute in minutes}
    with dg.DagsterInstance.from_config(str(ticked.home.dagster)) as instance:
        for table in (raw.QUEUE_OFFSETS, progress.QUEUES, progress.SNAPSHOTS):
            assert instance.get_materialized_partitions(key_of(table)) >= hours


def test_a_queue_has_the_numbers_that_were_made_up(ticked):
    minute = PAST[10]
    for broker in ("broker-a", "broker-b"):
        for queue_id in range(3):
            low, high = offsets(minute.at, broker, queue_id)
            result = rows(ticked, "progress.queues", topic="orders", broker=broker)
            mine = of(result, minute, queue_id=queue_id)
            by_group = {row["consumer_group"]: row for row in mine}
            assert set(by_group) == {"g-fast", "g-slow", "g-hung", "g-gone", "g-broadcast"}
            slow, hung, gone = (by_group[name] for name in ("g-slow", "g-hung", "g-gone"))
            middle = low + (high - low) // 2
            assert (slow["lag"], slow["available"]) == (high - middle, 3)
            assert slow["inflight"] == high - 3 - middle
            assert (hung["lag"], hung["lag_upper"]) == (None, high - low)
            assert hung["condition"] == "NEVER_COMMITTED"
            assert gone["lost"] == max(0, low - GONE_AT)
            assert gone["inflight"] is gone["available"] is None
            assert by_group["g-fast"]["lag"] == queue_id % 2


def test_a_rate_is_the_difference_over_the_seconds_between(ticked):
    result = rows(ticked, "progress.queues", topic="orders", broker="broker-b", queue_id=0)
    first, second, after_gap, broken = (
        of(result, PAST[number], consumer_group="g-slow")[0] for number in (0, 1, 10, 9)
    )
    assert first["produce_tps"] is None
    assert second["produce_tps"] == pytest.approx(1.0)
    assert after_gap["produce_tps"] is None, "half an hour is no interval for a rate"
    assert broken["produce_tps"] is None, "broker-b was unreachable for an hour before"


def dated_by(lake, before, after):
    """The commit of g-slow in minute 65 is a message written between two earlier observations."""
    result = rows(lake, "progress.queues", broker="broker-b", topic="orders", queue_id=0)
    (row,) = of(result, PAST[5], consumer_group="g-slow")
    stored = START + timedelta(minutes=row["consumer_offset"] / 60 - 30)
    assert at(before) < stored < at(after)
    assert abs(row["consumer_at"] - stored) < timedelta(seconds=2)
    assert row["delay_source"] == "interpolated"
    # the newest message is always 700 ms old
    return row["delay_error_ms"] == (after.at - before.at) * 60_000 - 700


def test_a_message_is_dated_by_the_observations_around_it(ticked):
    """They belong to earlier ticks; broker-b was unreachable in between."""
    assert dated_by(ticked, PAST[1], PAST[4])


def test_conditions_name_what_happened_to_a_queue(ticked):
    result = rows(ticked, "progress.queues", topic="orders", consumer_group="g-fast")
    for minute in (PAST[4], PAST[5], PAST[10]):
        kinds = {
            row["broker"]: row["condition"] for row in of(result, minute) if row["queue_id"] == 0
        }
        recreated = minute is PAST[5]
        assert kinds == {"broker-a": "RECREATED" if recreated else "OK", "broker-b": "OK"}


def test_an_unreachable_broker_leaves_unknowns_and_no_row(ticked):
    for minute in (PAST[2], PAST[8]):
        queues = of(rows(ticked, "progress.queues"), minute)
        assert queues and {row["broker"] for row in queues} == {"broker-a"}
        groups = of(rows(ticked, "progress.groups", topic="orders"), minute)
        assert len(groups) == 5
        for row in groups:
            # A broker keeps pulls of a broadcasting group, so none of its queues is known.
            unknown = 6 if row["consumer_group"] == "g-broadcast" else 3
            assert (row["queues"], row["queues_unknown"], row["complete"]) == (6, unknown, False)
        # The sum is over what is known; g-hung's is not known anywhere.
        assert {row["consumer_group"] for row in groups if row["lag"] is None} == {"g-hung"}


def test_a_rejected_snapshot_hides_its_groups_and_nothing_else(ticked):
    corrupt = PAST[7]
    (header,) = of(rows(ticked, "raw.snapshots"), corrupt)
    assert header["status"] == "FAILED"
    assert "queue_offsets.parquet is not readable" in header["problems"][0]["message"]
    groups = of(rows(ticked, "progress.groups"), corrupt)
    assert {row["consumer_group"] for row in groups} >= {"g-fast", "g-slow", "g-hung", "g-gone"}
    assert {row["lag"] for row in groups} == {None}
    assert {row["complete"] for row in groups} == {False}
    assert {row["online"] for row in groups} == {None}


def test_impossible_rows_are_quarantined_and_not_computed_on(ticked):
    result = of(rows(ticked, "quality.quarantine"), PAST[6])
    reasons = {
        (row["table"], json.loads(row["row"])["broker"], json.loads(row["row"])["queue_id"]): row[
            "reason"
        ]
        for row in result
        if json.loads(row["row"]).get("topic") == "orders"
    }
    assert (
        reasons["raw.queue_offsets", "broker-a", 0] == "max_offset_ge_0, min_offset_le_max_offset"
    )
    assert reasons["raw.queue_offsets", "broker-b", 0] == "key_unique"
    assert reasons["raw.queue_offsets", "broker-b", 1] == "key_unique"
    assert reasons["raw.consumer_offsets", "broker-b", 2] == "consumer_offset_ge_0"
    assert reasons["raw.consumer_offsets", "broker-a", 0] == "queue_row_sound"
    queues = of(rows(ticked, "progress.queues", topic="orders"), PAST[6])
    computed_queues = {(row["broker"], row["queue_id"]) for row in queues}
    assert computed_queues == {("broker-a", 1), ("broker-a", 2), ("broker-b", 0), ("broker-b", 2)}
    keys = [tuple(row[name] for name in progress.QUEUES.key) for row in queues]
    assert len(keys) == len(set(keys)), "of two identical rows one is computed on"
    (slow,) = of(rows(ticked, "progress.groups", topic="orders", consumer_group="g-slow"), PAST[6])
    assert (slow["queues"], slow["queues_unknown"]) == (6, 3)


def test_a_broken_invariant_fails_its_check_and_stays(ticked):
    result = of(rows(ticked, "progress.queues"), PAST[9])
    (broken,) = [row for row in result if (row["inflight"] or 0) < 0]
    assert broken["inflight"] == -5
    failed = rows(ticked, "quality.results", success=False)
    failed = [row for row in failed if row["table"] == "raw.snapshots"]
    names = {row["expectation"] for row in failed}
    assert names == {"every_broker_answered", "status_not_failed"}
    assert all(row["unexpected"] > 0 for row in failed)


def test_numbers_of_a_group_are_those_of_plain_python(ticked):
    """`tidemark lag` computes in Python the same numbers as Spark here; they must agree."""
    valid = [minute for minute in PAST if minute is not LATE]
    valid = [minute for minute in valid if not (minute.corrupt or minute.unreachable)]
    result = rows(ticked, "progress.groups")
    for minute in valid:
        expected = {
            (row["consumer_group"], row["topic"]): row
            for row in group_rows(snapshot(START, minute))
        }
        mine = {(row["consumer_group"], row["topic"]): row for row in of(result, minute)}
        if minute.impossible:
            continue  # duplicates cannot come from a broker, only from a lake
        assert mine.keys() == expected.keys()
        for key, row in expected.items():
            shared = row.keys() & mine[key].keys()
            if minute is not PAST[0]:
                # One snapshot cannot date a message that older ones can.
                shared -= {*LARGEST, "delay_is_lower_bound", "ready_delay_is_lower_bound"}
            assert len(shared) > 15
            assert {name: mine[key][name] for name in shared} == {
                name: row[name] for name in shared
            }, key


def test_queues_have_the_owners_that_members_report(ticked):
    """Three members share six queues on average: two each; the second lost its own meanwhile."""
    fast = {"topic": "orders", "consumer_group": "g-fast"}
    result = rows(ticked, "progress.assignments", **fast)
    shallow = at(PAST[4])
    assert shallow not in {row["observed_at"] for row in result}
    first, unreachable, later = (of(result, PAST[number]) for number in (0, 2, 5))
    assert [row["expected_client_id"][:8] for row in first] == [
        f"10.0.1.{number}" for number in (0, 0, 1, 1, 2, 2)
    ]
    assert [row["state"] for row in first] == ["OK", "OK", "MOVED", "OK", "MOVED", "MOVED"]
    assert {row["rebalanced"] for row in first} == {None}
    assert len(unreachable) == 6 and {row["state"] for row in unreachable} == {"UNKNOWN"}
    assert [row["rebalanced"] for row in later] == [False] * 3 + [True] * 3
    assert {row["previous_client_id"] for row in later[3:]} == {"10.0.1.1@g-fast"}

    idle = rows(ticked, "progress.idle_clients", **fast)
    assert {row["client_id"] for row in of(idle, PAST[0])} == {"10.0.1.2@g-fast"}
    assert {(row["client_id"], row["reason"]) for row in of(idle, PAST[5])} == {
        (f"10.0.1.{number}@g-fast", "NOT_REBALANCED") for number in (1, 2)
    }


def test_members_with_different_subscriptions_are_reported(ticked):
    bodies = {
        row["consumer_group"]: row for row in of(rows(ticked, "progress.subscriptions"), PAST[0])
    }
    assert bodies.keys() == {"g-fast", "g-slow"}
    assert bodies["g-slow"]["consistent"] is True
    assert (bodies["g-fast"]["consistent"], bodies["g-fast"]["difference"]) == (False, "EXPRESSION")
    reported = [item["subscriptions"][0]["expression"] for item in bodies["g-fast"]["evidence"]]
    assert reported == ["A||B0", "A||B1", "A||B2"]


def test_counters_are_compared_with_offsets(ticked):
    """Six queues get a message a second; broker-a's slave serves g-slow as its master does."""
    mapping = {
        (row["stats_name"], row["stats_window"]): row
        for row in of(rows(ticked, "progress.throughput"), PAST[1])
    }
    written = mapping["TOPIC_PUT_NUMS", "minute"]
    assert (written["tps"], written["sum"], written["tps_replicas"]) == (6.0, 360, None)
    assert written["tps_observed"] == pytest.approx(6.0)
    served = mapping["GROUP_GET_NUMS", "minute"]
    assert (served["tps_master"], served["tps"], served["served_by_replicas"]) == (None, 1.5, 1.0)
    assert served["tps_observed"] == pytest.approx(6.0)
    hour = mapping["GROUP_GET_NUMS", "hour"]
    assert (hour["sum"], hour["tps_observed"]) == (210, None)
    assert hour["served_by_replicas"] == pytest.approx(1.5 / 1.7)
    recreated = of(rows(ticked, "progress.throughput", stats_name="TOPIC_PUT_NUMS"), PAST[5])
    assert [row["tps_observed"] for row in recreated] == [None]


def test_a_third_of_the_unconsumed_messages_match(ticked):
    slow = {"topic": "orders", "consumer_group": "g-slow"}
    result = rows(ticked, "progress.groups", **slow)
    (deep,), (shallow,) = of(result, PAST[1]), of(result, PAST[4])
    assert (deep["match_method"], shallow["match_method"]) == ("tag_sample", "none")
    assert deep["match_ratio"] == pytest.approx(1 / 3)
    assert deep["filtered_lag_low"] < deep["filtered_lag"] < deep["filtered_lag_high"]
    assert deep["filtered_lag"] == round(deep["readable_lag"] / 3)
    (fast,) = of(rows(ticked, "progress.groups", topic="orders", consumer_group="g-fast"), PAST[1])
    assert (fast["match_ratio"], fast["filtered_lag"]) == (None, None), "its members differ"


def test_capacity_follows_from_threads_and_consume_time(ticked):
    (slow,) = of(rows(ticked, "progress.capacity"), PAST[1])
    assert (slow["consumer_group"], slow["threads"], slow["consume_rt_ms"]) == ("g-slow", 20, 120)
    assert slow["capacity_tps"] == pytest.approx(20 * 1000 / 120)
    assert slow["peak_tps"] == pytest.approx(6.0 / 3) and slow["clients_needed"] == 1


def test_health_follows_from_the_observations_before(ticked):
    """Observations known in full: the minutes 2, 5, 40, 60, 65, 122, 150 and 180."""
    result = rows(ticked, "progress.groups", topic="orders")
    health = {
        group: [
            of(result, minute, consumer_group=group)[0]["health"]
            for minute in (PAST[0], PAST[2], PAST[5], PAST[9], PAST[11])
        ]
        for group in ("g-fast", "g-hung", "g-gone")
    }
    unknown = ["UNKNOWN", "UNKNOWN"]
    assert health["g-fast"] == [*unknown, "OK", "OK", "OK"]
    assert health["g-hung"] == [*unknown, "STALLED", "STALLED", "STALLED"]
    assert health["g-gone"][:2] == unknown
    (hung,) = of(result, PAST[11], consumer_group="g-hung")
    assert hung["health_reason"].startswith("broker-a/0: never committed, ")
    (unreachable,) = of(result, PAST[8], consumer_group="g-fast")
    assert unreachable["health_reason"] == "3 of 6 queues unknown"


def test_each_thing_that_happened_is_one_event(ticked):
    result = rows(ticked, "progress.events")
    down = [
        (row["observed_at"], row["broker"], row["previous_at"])
        for row in result
        if row["kind"] == "BROKER_DOWN"
    ]
    assert down == [
        (at(PAST[2]), "broker-b", at(PAST[1])),
        (at(PAST[8]), "broker-b", at(PAST[6])),
    ]
    recreated = [row for row in result if row["kind"] == "RECREATED"]
    assert {(row["observed_at"], row["broker"]) for row in recreated} == {(at(PAST[5]), "broker-a")}
    assert len(recreated) == 15, "five groups read three queues"
    lost = [row for row in result if row["kind"] == "LOST"]
    assert {row["consumer_group"] for row in lost} == {"g-gone"}
    # Before minute 60 the other broker was unreachable, so members may have been online there.
    expired = [
        ("broker-a", PAST[4], None),
        ("broker-b", PAST[4], "nobody online"),
        ("broker-a", PAST[10], "nobody online"),
    ]
    assert {(row["broker"], row["messages"], row["likely_cause"]) for row in lost} == {
        (broker, offsets(minute.at, broker, queue_id)[0] - GONE_AT, cause)
        for broker, minute, cause in expired
        for queue_id in range(3)
    }


def test_alerts_name_the_unreachable_broker_and_the_lost_messages(ticked):
    result = rows(ticked, "alerting.alerts")
    result = [row for row in result if row["subject"].startswith(f"{CLUSTER}/")]
    down = {row["observed_at"] for row in result if row["rule"] == "broker-down"}
    assert {at(PAST[2]), at(PAST[8])} <= down
    lost = [row for row in result if row["rule"] == "messages-lost"]
    assert {row["subject"] for row in lost} == {f"{CLUSTER}/g-gone/orders"}
    alone = {row["subject"] for row in result if row["rule"] == "nobody-online"}
    assert alone == {f"{CLUSTER}/g-gone/orders"}


def test_incidents_live_through_ticks(ticked):
    """The broker is unreachable twice with five unobserved minutes between: one incident."""
    result = rows(ticked, "alerting.incidents")
    (down,) = [row for row in result if row["rule"] == "broker-down"]
    assert (down["opened_at"], down["fired_at"]) == (at(PAST[2]), at(PAST[2]))
    assert (down["state"], down["cluster"]) == ("FIRING", CLUSTER)
    assert down["snapshot_ids"][0] == snapshot_id(PAST[2])
    assert [transition["transition"] for transition in down["transitions"]] == ["FIRING"]
    (alone,) = [row for row in result if row["rule"] == "nobody-online"]
    assert (alone["subject"], alone["state"]) == (f"{CLUSTER}/g-gone/orders", "FIRING")
    assert alone["opened_at"] == at(PAST[0])


def snapshot_id(minute):
    return snapshot(START, minute).snapshot_id


def test_a_tick_without_anything_new_changes_nothing(ticked, warm_home):
    before = computed(ticked)
    warm_home.tick()
    assert computed(ticked) == before


def test_what_lands_late_is_woven_in(ticked, warm_home):
    """Its neighbours have a new previous observation."""
    result = rows(ticked, "progress.queues", topic="orders", consumer_group="g-slow")
    put(ticked.home, START, [LATE])
    warm_home.tick()
    woven = computed(ticked)
    late = of(woven["progress.queues"], LATE, topic="orders", consumer_group="g-slow")
    assert len(late) == 6
    assert of(result, LATE) == []
    assert dated_by(ticked, PAST[1], LATE)
    moved = [row for row in woven["progress.assignments"] if row["rebalanced"]]
    assert at(LATE) in {row["observed_at"] for row in moved}
    assert at(PAST[5]) not in {row["observed_at"] for row in moved}, "it had happened before"


NEEDING_WEEKS = (progress.BASELINES,)
"""Tables without a row of a history of hours."""


def test_a_backfill_gives_the_rows_of_the_ticks(ticked, warm_home):
    before, known = computed(ticked), {run.run_id for run in runs(ticked.home)}
    reported = rows(ticked, "alerting.incidents")
    assert all(before[table.name] for table in COMPUTED if table not in NEEDING_WEEKS)
    assert reported, "nothing to compare"
    warm_home.recompute(HOURS)
    (backfill,) = runs(ticked.home, known)
    assert backfill.status == dg.DagsterRunStatus.SUCCESS
    after = computed(ticked)
    for name in before:
        assert after[name] == before[name], name
    assert rows(ticked, "alerting.incidents") == reported, "a backfill changes no incident"


def test_a_window_without_rows_left_becomes_empty(ticked, warm_home):
    """The last hour's raw rows are gone: its numbers go too, and no other hour's do."""
    last = Window(HOURS.end - HOUR, HOURS.end)
    before = computed(ticked)
    for table in raw.ALL:
        ticked.replace(table, last, [])
    warm_home.recompute(last)
    after = computed(ticked)
    for table in COMPUTED:
        expected = [row for row in before[table.name] if row[table.instant] not in last]
        has_rows = table not in (*NEEDING_WEEKS, TABLES["quality.quarantine"])
        assert len(expected) < len(before[table.name]) or not has_rows
        assert after[table.name] == expected, table.name


def test_an_audit_finds_only_the_made_up_rows(ticked):
    """The second hour holds impossible rows, and files that could not be read."""
    hour = START + HOUR
    dagster_job(ticked.home, "audit", validate_hour={"config": {"hour": hour.isoformat()}})
    result = rows(ticked, "quality.results", window_start=hour, window_end=hour + HOUR)
    audited = {row["run_id"]: row for row in result if row["table"] == "alerting.incidents"}
    (run_id,) = audited
    results = [row for row in result if row["run_id"] == run_id]
    assert {row["table"] for row in results} == set(TABLES)
    failed = {(row["table"], row["expectation"]) for row in results if row["success"] is False}
    assert failed == {
        ("raw.snapshots", "status_not_failed"),
        ("raw.queue_offsets", "max_offset_ge_0"),
        ("raw.queue_offsets", "min_offset_le_max_offset"),
        ("raw.queue_offsets", "key_unique"),
        ("raw.consumer_offsets", "consumer_offset_ge_0"),
        ("raw.consumer_offsets", "queue_row_sound"),
    }
    pages = ticked.home.path / "data_docs" / "uncommitted" / "data_docs" / "local_site"
    assert "progress" in (pages / "index.html").read_text()
    (page,) = pages.glob("validations/raw/queue_offsets/**/*.html")
    shown = html.unescape(page.read_text())
    assert "max_offset_ge_0: 0 rows where max_offset < 0 (quarantine)" in shown


def test_maintenance_keeps_every_row_and_few_states(ticked):
    before = computed(ticked)
    states = len(ticked.table("raw.snapshots").metadata.snapshots)
    dagster_job(ticked.home, "maintain")
    after = computed(ticked)
    full, thin = before.pop("progress.timeline"), after.pop("progress.timeline")
    assert after == before
    young = START + 2 * HOUR
    assert [row for row in thin if row["observed_at"] >= young] == [
        row for row in full if row["observed_at"] >= young
    ]
    # Older hours keep one step of each five minutes: 5 and 9 share theirs, so do 65 and 67.
    queue = {"broker": "broker-a", "topic": "orders", "queue_id": 1}
    steps = rows(ticked, "progress.timeline", **queue)
    old = {row["observed_at"] for row in steps if row["observed_at"] < young}
    assert old == {at(PAST[number]) for number in (0, 2, 3, 4, 6)}
    # The states of the last hour stay: a reader may be at them.
    assert len(ticked.table("raw.snapshots").metadata.snapshots) <= states + 1


def test_hours_without_raw_rows_are_not_recomputed(ticked):
    before = computed(ticked)
    remember_raw_since(ticked.shared.state, HOURS.start + HOUR)
    try:
        hours = ["--from", HOURS.start.isoformat(), "--to", HOURS.end.isoformat()]
        done = run(ticked.home, ["recompute", *hours])
    finally:
        (ticked.home.path / "raw_since").unlink()
    assert done.returncode == 2
    assert f"is before {HOURS.start + HOUR:%Y-%m-%dT%H:%MZ}: older raw rows" in done.stderr
    assert computed(ticked) == before


def test_show_prints_what_the_tables_hold(ticked):
    where = f"cluster = '{CLUSTER}' AND topic = 'orders' AND lag > 0"
    done = run(
        ticked.home,
        ["show", "progress.groups", "--format", "json", "--where", where, "--limit", "3"],
    )
    assert (done.returncode, done.stderr) == (0, "")
    shown = json.loads(done.stdout)
    assert len(shown) == 3
    lags = {
        (row["observed_at"].isoformat(), row["consumer_group"]): row["lag"]
        for row in rows(ticked, "progress.groups", topic="orders", cluster=CLUSTER)
    }
    for row in shown:
        assert set(row) == set(progress.GROUPS.column_names)
        assert lags[row["observed_at"], row["consumer_group"]] == row["lag"] > 0
    newest = [row["observed_at"] for row in shown]
    assert newest == sorted(newest, reverse=True)


def quarantine(home, *arguments):
    done = run(home, ["quarantine", *arguments])
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def test_a_released_row_counts_when_its_hour_is_recomputed(ticked):
    """Two rows of a queue contradict each other; a person knows which one was measured."""
    _, high = offsets(PAST[6].at, "broker-b", 1)
    listed = json.loads(quarantine(ticked.home, "list", "--format", "json"))
    (chosen,) = (
        row["row_id"]
        for row in listed
        if row["reason"] == "key_unique" and json.loads(row["row"])["max_offset"] == high
    )
    reported = quarantine(ticked.home, "release", chosen, "--comment", "as broker-b reports")
    hour = START + HOUR
    command = f"recompute --from {hour:%Y-%m-%dT%H:%MZ} --to {hour + HOUR:%Y-%m-%dT%H:%MZ}"
    assert reported.endswith(f"tidemark {command}\n")
    queue = {"topic": "orders", "broker": "broker-b", "queue_id": 1}
    assert of(rows(ticked, "progress.queues", **queue), PAST[6]) == []

    done = run(ticked.home, command.split())

    assert done.returncode == 0, done.stderr
    result = of(rows(ticked, "progress.queues", **queue), PAST[6])
    assert len(result) == 5, "and the five groups that read it"
    assert {row["max_offset"] for row in result} == {high}
    (slow,) = of(rows(ticked, "progress.groups", topic="orders", consumer_group="g-slow"), PAST[6])
    assert (slow["queues"], slow["queues_unknown"]) == (6, 2)
    left = of(rows(ticked, "quality.quarantine"), PAST[6])
    contradicting = [row for row in left if json.loads(row["row"]).items() >= queue.items()]
    assert [json.loads(row["row"])["max_offset"] for row in contradicting] == [high + 9]


def test_past_hours_cannot_be_collected(ticked, monkeypatch):
    monkeypatch.setenv("TIDEMARK_HOME", str(ticked.home.path))
    with dg.DagsterInstance.ephemeral() as instance:
        from orchestration.definitions import build
        from tidemark.settings.environment import Settings

        job = build(Settings.read()).resolve_implicit_global_asset_job_def()
        done = job.execute_in_process(
            instance=instance,
            partition_key=START.strftime("%Y-%m-%d-%H:%M"),
            asset_selection=[dg.AssetKey("landing")],
            raise_on_error=False,
        )
    assert not done.success
    (failure,) = done.get_step_failure_events()
    assert "they have no history" in str(failure.step_failure_data.error)


def test_the_history_holds_every_field_of_a_snapshot():
    """A column that nothing here fills would be compared as NULL for ever."""
    taken = snapshot(START, PAST[2])
    empty = [field.name for field in fields(Snapshot) if not getattr(taken, field.name)]
    assert empty == ["proxies_answered", "proxies", "staleness_ms", "part"], (
        "what only proxies and files have"
    )
    assert set(TABLES) >= {table.name for table in COMPUTED}
    assert AFTER.start - timedelta(hours=3) == START
