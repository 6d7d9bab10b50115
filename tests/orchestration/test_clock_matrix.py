"""Snapshots of wrong clocks, then correct ones, from which on all results must be right.

One home holds a cluster for each case, so that all of them cost three ticks. A cluster of ``f`` has
an incident that fires when the wrong snapshot comes, and must resolve by the next correct one. One
of ``r`` has an incident that is resolved by then, and must open again.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from fastapi.testclient import TestClient
from msgspec.structs import replace
from pyiceberg.table import snapshots as of_pyiceberg

from tests.support.homes import run, warmed
from tidemark.alerting.incidents.incident import Incident, Transition
from tidemark.alerting.incidents.repository import from_rows
from tidemark.board.application import application
from tidemark.board.newest import STALE_AFTER
from tidemark.board.store import Store
from tidemark.lake.catalog import Lake
from tidemark.lake.clocks import Window, floor_hour
from tidemark.lake.landing import land
from tidemark.lake.loading import load
from tidemark.lake.tables import TABLES, alerting, progress, raw
from tidemark.lake.typed_rows import plain_rows
from tidemark.rocketmq.records import (
    Broker,
    ConsumerGroup,
    ConsumerOffset,
    QueueOffset,
    Snapshot,
    Topic,
)
from tidemark.settings.home import Home

pytestmark = [pytest.mark.spark, pytest.mark.kills]

MINUTE, DAY, YEAR = timedelta(minutes=1), timedelta(days=1), timedelta(days=365)
HIGH, LOW = 90_000, 3
RULES = "rules:\n  - {name: lag, kind: lag, threshold: 1000, for: 1, clear_for: 1}\n"

OFFSETS = {
    "minute": MINUTE,
    "half-hour": 30 * MINUTE,
    "day": DAY,
    "30days": 30 * DAY,
    "year": YEAR,
    "y9999": datetime(9999, 12, 31, 12, tzinfo=UTC),
    "y1": datetime(1, 1, 1, 12, tzinfo=UTC),
    "minute-behind": -MINUTE,
    "day-behind": -DAY,
    "year-behind": -YEAR,
}
"""Error of the clock of the wrong snapshot, or the time that it shows."""

INGESTED = ("half-hour", "day", "30days", "year", "y9999", "y1")
"""Offsets of clusters that a home computed, with incidents, while its own clock was wrong."""

OPENED_AHEAD = "year"
"""The clock that was ahead when the incident opened, too."""


@dataclass(frozen=True)
class Case:
    """One cluster.

    Attributes:
        way: ``landed`` | ``ingested``.
        offset: key of `OFFSETS`.
        state: ``f`` | ``r``: of its incident when the wrong snapshot comes.
    """

    way: str
    offset: str
    state: str

    @property
    def cluster(self) -> str:
        return f"{self.way}-{self.offset}-{self.state}"

    def wrong(self, now: datetime) -> datetime:
        """The instant of the wrong snapshot, which is taken now."""
        off = OFFSETS[self.offset]
        return off if isinstance(off, datetime) else now + off

    def correct(self, now: datetime) -> datetime:
        """That of the next one. A minute ahead is tolerated, and a minute later the next is due."""
        return now + timedelta(seconds=61 if self.offset == "minute" else 1)

    def lag(self, number: int) -> int:
        """The lag at the first, second, wrong and third snapshot."""
        return {"f": (HIGH, HIGH, HIGH, LOW), "r": (HIGH, LOW, LOW, HIGH)}[self.state][number]


CASES = [
    *(Case("landed", offset, state) for offset in OFFSETS for state in "fr"),
    *(Case("ingested", offset, state) for offset in INGESTED for state in "fr"),
]


def taken(case: Case, at: datetime, true_at: datetime, lag: int) -> Snapshot:
    """Return the snapshot of a collector whose clock shows another instant than the true one."""
    produced = 200_000 + int(true_at.timestamp()) % 100_000
    return Snapshot(
        cluster=case.cluster,
        source="remote",
        observed_at=at,
        finished_at=at,
        status="COMPLETE",
        brokers_expected=1,
        brokers_answered=1,
        brokers=[
            Broker(
                broker="b",
                broker_id=0,
                address="10.0.0.1:10911",
                version="V5_3_3",
                role="ASYNC_MASTER",
            )
        ],
        topics=[
            Topic(
                broker="b",
                topic="orders",
                read_queues=1,
                write_queues=1,
                perm=6,
                message_type="NORMAL",
                kind="normal",
            )
        ],
        consumer_groups=[
            ConsumerGroup(
                broker="b",
                consumer_group="g",
                consume_enable=True,
                retry_max_times=16,
                which_broker_when_slow=1,
                consume_orderly=False,
                system=False,
            )
        ],
        queue_offsets=[
            QueueOffset(broker="b", topic="orders", queue_id=0, min_offset=0, max_offset=produced)
        ],
        consumer_offsets=[
            ConsumerOffset(
                broker="b",
                consumer_group="g",
                topic="orders",
                queue_id=0,
                client_id=None,
                consumer_offset=produced - lag,
            )
        ],
    )


def ingest(lake: Lake, now: datetime, last_at: datetime) -> None:
    """Write the rows and commit times of a tick that computes by a wrong clock."""
    cases = [case for case in CASES if case.way == "ingested"]
    for table in TABLES.values():
        if "snapshot_id" not in table.column_names or table.namespace not in ("raw", "progress"):
            continue
        last = lake.read(table, Window.through(last_at, last_at)).to_pylist()
        rows = [
            row | {"observed_at": case.wrong(now), "snapshot_id": f"wrong-{case.cluster}"}
            for case in cases
            for row in last
            if row["snapshot_id"].endswith(f"Z-{case.cluster}")
        ]
        lake.append(table, rows)
    before = {incident.cluster: incident for incident in incidents(lake)}
    moved = [(before[case.cluster], case) for case in cases if case.offset != "y1"]
    lake.upsert(
        alerting.INCIDENTS,
        plain_rows(advanced(incident, case, case.wrong(now)) for incident, case in moved),
        plain_rows(incident for incident, _ in moved),
    )


def advanced(incident: Incident, case: Case, wrong: datetime) -> Incident:
    names = ["observed_at", "resolved_at" if case.state == "r" else "last_true_at"]
    transitions = list(incident.transitions)
    transitions[-1] = Transition(transitions[-1].transition, wrong)
    if case.offset == OPENED_AHEAD:
        names += ["opened_at", "fired_at"]
        transitions = [Transition(transition.transition, wrong) for transition in transitions]
    return replace(incident, transitions=tuple(transitions), **dict.fromkeys(names, wrong))


def incidents(lake: Lake) -> list[Incident]:
    return from_rows(lake.read(alerting.INCIDENTS))


class Ahead:
    """The clock of a host that is 30 days ahead."""

    @staticmethod
    def time() -> float:
        return datetime.now(UTC).timestamp() + 30 * 86_400


@dataclass(frozen=True, kw_only=True)
class Ticked:
    """The home after the correct snapshots, and the responses of its board."""

    now: datetime
    lake: Lake
    printed: str
    incidents: dict[str, list[Incident]]
    recomputed: dict[str, list[Incident]]
    store: Store
    client: TestClient
    metrics: str


@pytest.fixture(scope="module")
def ticked(tmp_path_factory, spark_engine) -> Iterator[Ticked]:
    folder = tmp_path_factory.mktemp("clocks")
    home = Home.of(folder / "home")
    home.make()
    rules = folder / "rules.yaml"
    rules.write_text(RULES)
    settings: dict[str, Any] = {"TIDEMARK_RULES": str(rules)}

    def command(*arguments: str) -> str:
        done = run(home, arguments, **settings)
        assert done.returncode == 0, done.stderr
        return done.stdout + done.stderr

    start = datetime.now(UTC).replace(microsecond=0)
    with warmed(home, spark_engine) as warm, pytest.MonkeyPatch.context() as patched:
        for number, at in enumerate((start - 6 * MINUTE, start - 4 * MINUTE)):
            for case in CASES:
                land(home, taken(case, at, at, case.lag(number)))
            command("tick", "--no-collect")
        states = {incident.cluster: incident.state for incident in incidents(warm.lake)}
        wanted = {"f": "FIRING", "r": "RESOLVED"}
        assert states == {case.cluster: wanted[case.state] for case in CASES}
        now = datetime.now(UTC).replace(microsecond=0)
        patched.setattr(of_pyiceberg, "time", Ahead)
        ingest(warm.lake, now, start - 4 * MINUTE)
        patched.undo()
        for case in CASES:
            if case.way == "landed":
                land_wrong(home, taken(case, case.wrong(now), now, case.lag(2)))
            land(home, taken(case, case.correct(now), case.correct(now), case.lag(3)))
        printed = command("tick", "--no-collect")
        after = by_cluster(warm.lake)
        store = Store(warm.lake)
        store.refresh()
        app = application(store)
        app.state.metrics.refresh()
        client = TestClient(app, base_url="http://127.0.0.1:8080")
        metrics = client.get("/metrics").text
        hours = Window(floor_hour(start - 6 * MINUTE), now).whole_hours(inclusive=True)
        command("recompute", "--from", hours.start.isoformat(), "--to", hours.end.isoformat())
        again = by_cluster(warm.lake)
        yield Ticked(
            now=now,
            lake=warm.lake,
            printed=printed,
            incidents=after,
            recomputed=again,
            store=store,
            client=client,
            metrics=metrics,
        )


def land_wrong(home: Home, snapshot: Snapshot) -> None:
    """Lands a snapshot; C writes the year 1 with one digit, and others may write it with four."""
    folder = land(home, snapshot)
    year = snapshot.observed_at.year
    if year < 1000:
        day = folder.parents[1]
        folder.rename(folder.with_name(f"{year:04}{folder.name.removeprefix(str(year))}"))
        day.rename(day.with_name(f"{year:04}{day.name.removeprefix(str(year))}"))


def by_cluster(lake: Lake) -> dict[str, list[Incident]]:
    cluster: dict[str, list[Incident]] = {}
    for incident in incidents(lake):
        cluster.setdefault(incident.cluster or "", []).append(incident)
    return cluster


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.cluster)
def test_everything_is_right_from_the_next_correct_snapshot_on(ticked: Ticked, case: Case):
    correct = case.correct(ticked.now)
    assert ticked.store.newest.at[case.cluster] == correct
    (row,) = ticked.client.get("/api/v1/groups", params={"cluster": case.cluster}).json()["items"]
    assert (row["lag"], datetime.fromisoformat(row["observed_at"])) == (case.lag(3), correct)
    values = [
        float(line.rpartition(" ")[2])
        for line in ticked.metrics.splitlines()
        if line.startswith("tidemark_group_lag_messages{") and f'cluster="{case.cluster}"' in line
    ]
    assert values == [case.lag(3)]
    page = ticked.client.get("/group", params={"cluster": case.cluster, "group": "g"})
    assert page.status_code == 200 and "wrong-" not in page.text
    latest = datetime.now(UTC) + MINUTE
    for value in (ticked.incidents, ticked.recomputed):
        (incident,) = value[case.cluster]
        assert incident.state == {"f": "RESOLVED", "r": "FIRING"}[case.state]
        instants = [transition.at for transition in incident.transitions]
        assert instants == sorted(instants) and instants[-1] <= latest
        assert incident.observed_at == correct
        if case.state == "r":
            assert (incident.reopened, incident.transitions[-1].transition) == (1, "FIRING_2")


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.cluster)
def test_what_was_left_out_is_named(ticked: Ticked, case: Case):
    quality = ticked.client.get("/quality").text
    wrong = case.wrong(ticked.now)
    if case.way == "ingested":
        assert (f"wrong-{case.cluster}" in quality) == (case.offset != "y1")
        return
    names = ("cluster", "observed_at")
    loaded, computed = (
        any(row["cluster"] == case.cluster and row["observed_at"] == wrong for row in rows)
        for rows in (
            ticked.lake.read(table, columns=names).to_pylist()
            for table in (raw.SNAPSHOTS, progress.SNAPSHOTS)
        )
    )
    assert loaded == (case.offset in ("minute", "half-hour", "minute-behind", "day-behind"))
    assert computed == (loaded and case.offset != "half-hour")
    if case.offset == "half-hour":
        assert f"Z-{case.cluster} lies in the future" in quality
    elif case.offset == "year-behind":
        too_old = load(ticked.lake, ticked.now - 31 * DAY).too_old
        assert any(text.endswith(f"Z-{case.cluster}") for text in too_old)
    elif not loaded:
        assert f"Z-{case.cluster} is of a clock that was wrong" in ticked.printed
        assert "set aside in the landing" in quality


def test_the_board_is_ready_as_long_as_the_correct_snapshots_are_young(ticked: Ticked):
    response = ticked.client.get("/readyz")
    oldest = min(ticked.store.newest.at.values())
    assert response.status_code == (200 if datetime.now(UTC) - oldest <= STALE_AFTER else 503)
