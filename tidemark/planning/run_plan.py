"""The plan of one run and the outcome of its validation: inputs decided once, never changed.

Among the inputs are the recent observations that the health of groups is computed from. Two
snapshots in the same seconds are no two observations of what a group does: nothing happens between
them. So the observations that count for a snapshot are chosen from it backwards, each the latest
one that is at least the shortest step older than the one after it.
"""

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from operator import attrgetter
from typing import Protocol

import msgspec

from tidemark.lake import clocks
from tidemark.lake.catalog import Lake
from tidemark.lake.clocks import HOUR, Window
from tidemark.lake.schema import Table, all_of, one_of, window_filter
from tidemark.lake.system_topics import NamedTopics, system_topics
from tidemark.lake.tables import quality, raw
from tidemark.lake.typed_rows import typed_rows
from tidemark.planning.history import (
    LoadedSnapshot,
    loaded_snapshots,
    measured_rows,
    newest_computed,
    remembered,
)
from tidemark.planning.lacking_parts import (
    HiddenQueues,
    Quarantined,
    UnreachableBroker,
    read_quarantine,
    unreachable_brokers,
)
from tidemark.planning.observation_steps import (
    CounterWindow,
    Step,
    counter_windows,
    observation_steps,
    previous_snapshots,
)
from tidemark.planning.quarantine_decisions import Decision, decisions
from tidemark.settings.sections import DEFAULT_HISTORY, MEMORY, OBSERVATIONS, HistorySettings

PAUSE = MEMORY / (OBSERVATIONS - 1)
"""The longest time between two consecutive observations that health counts together; so the
observations of a window never reach further back than `MEMORY`."""

APART = 1 << 40
"""Distance between the numbers of two tracks, so that they never count together."""


@dataclass(frozen=True)
class Observation:
    """An observation of the groups of a cluster by one source, on one track.

    A snapshot is on several tracks where later ones lie close together: each of these is on a track
    of its own, with those before it.

    Attributes:
        snapshot_id: its snapshot.
        number: its place. Numbers count one by one on a track, and jump by `OBSERVATIONS` over a
            pause; only their differences mean something.
        counts_for: ids of the window's snapshots whose health is computed on this track and that it
            counts for, and how many observations each of them is later. Its own id is among them
            where its own health is.
    """

    snapshot_id: str
    number: int
    counts_for: Mapping[str, int]


def recent_observations(
    known: Sequence[LoadedSnapshot],
    window: Window,
    shortest: timedelta = DEFAULT_HISTORY.shortest_step,
) -> Iterator[Observation]:
    """Yield the observations that count for the health of a window's snapshots.

    Args:
        known: loaded snapshots of the window and of `MEMORY` before it, in order of time.
        window: the window.
        shortest: the shortest time between two observations that count together.
    """
    seen: dict[tuple[str, str], list[LoadedSnapshot]] = defaultdict(list)
    for snapshot in known:
        if snapshot.is_of_groups:
            seen[snapshot.origin].append(snapshot)
    tracks = (
        track for loaded_snapshots in seen.values() for track in _tracks(loaded_snapshots, shortest)
    )
    for base, (earlier, own) in enumerate(tracks):
        numbered = _numbered([*earlier, *own], base * APART)
        inside = {
            number: snapshot.snapshot_id
            for number, snapshot in numbered
            if snapshot.observed_at in window
        }
        judged = {snapshot.snapshot_id for snapshot in own}
        for number, snapshot in numbered:
            later = {inside.get(number + after): after for after in range(OBSERVATIONS)}
            counts_for = {key: after for key, after in later.items() if key}
            if counts_for:
                of_own = {key: after for key, after in counts_for.items() if key in judged}
                yield Observation(snapshot.snapshot_id, number, of_own)


def _tracks(
    seen: Sequence[LoadedSnapshot], shortest: timedelta
) -> Iterator[tuple[list[LoadedSnapshot], list[LoadedSnapshot]]]:
    """Yield tracks: the snapshots before its first own one, and its own snapshots.

    Those before are as many as count for it and for those that count for it. Each snapshot is among
    the own ones of one track. Where two follow the same one, the later continues its track.
    """
    at = attrgetter("observed_at")
    before = [
        bisect_right(seen, at(loaded_snapshot) - shortest, key=at) - 1 for loaded_snapshot in seen
    ]
    following = {place: number for number, place in enumerate(before) if place >= 0}
    for number, place in enumerate(before):
        if place >= 0 and following[place] == number:
            continue
        earlier: list[LoadedSnapshot] = []
        while place >= 0 and len(earlier) < 2 * (OBSERVATIONS - 1):
            earlier.insert(0, seen[place])
            place = before[place]
        own, last = [seen[number]], number
        while (last := following.get(last, -1)) >= 0:
            own.append(seen[last])
        yield earlier, own


def _numbered(track: Sequence[LoadedSnapshot], first: int) -> list[tuple[int, LoadedSnapshot]]:
    """Return the snapshots of a track with their numbers."""
    numbered = [(first, track[0])]
    for snapshot in track[1:]:
        number, before = numbered[-1]
        is_next = snapshot.observed_at - before.observed_at <= PAUSE
        numbered.append((number + (1 if is_next else OBSERVATIONS), snapshot))
    return numbered


ALL_RAW = frozenset(table.name for table in raw.ALL)


@dataclass(frozen=True, kw_only=True)
class RunPlan:
    """Inputs of the computation of a window, decided once; no computation reads them for itself.

    Attributes:
        window: the instants that the run computes and replaces.
        snapshots: the loaded snapshots of the window, in order of time.
        new: those of them that are newer than everything computed of their cluster until now.
            Incidents follow time forward only, so only these advance them.
        known: the loaded snapshots of the window and of `MEMORY` before it, in order of time, of
            the clusters with a snapshot in the window.
        rows: about how many offsets of queues and consumers the window holds.
        filled: names of the raw tables with rows in the window.
        previous: ids of the snapshots before the window that hold the previous observations.
        unreachable: brokers that snapshots of the window lack, and the snapshot that last had
            them.
        observations: the recent observations that health is computed from.
        steps: from the previous observation of each broker to those of the window, for events.
        counter_windows: where the windows of counters begin, for throughput; empty without counters
            in the window.
        system_topics: topics of RocketMQ itself that no name shows, by cluster.
        decisions: decisions of people on quarantined rows of `reach`.
        quarantined: quarantined rows of `reach` before the window.
        members_reported: whether a member reported its queues or subscriptions in the window.
        settings: how far back the run reads.
    """

    window: Window
    snapshots: tuple[LoadedSnapshot, ...] = ()
    new: tuple[LoadedSnapshot, ...] = ()
    known: tuple[LoadedSnapshot, ...] = ()
    rows: int = 0
    filled: frozenset[str] = frozenset()
    previous: tuple[str, ...] = ()
    unreachable: tuple[UnreachableBroker, ...] = ()
    observations: tuple[Observation, ...] = ()
    steps: tuple[Step, ...] = ()
    counter_windows: tuple[CounterWindow, ...] = ()
    system_topics: NamedTopics = ()
    decisions: tuple[Decision, ...] = ()
    quarantined: Quarantined = field(default_factory=Quarantined)
    members_reported: bool = False
    settings: HistorySettings = DEFAULT_HISTORY

    @property
    def snapshot_ids(self) -> tuple[str, ...]:
        """Ids of the snapshots in the window."""
        return tuple(snapshot.snapshot_id for snapshot in self.snapshots)

    @property
    def recent(self) -> tuple[str, ...]:
        """Ids of the snapshots before the window among `observations`."""
        ids = {observation.snapshot_id for observation in self.observations}
        return tuple(sorted(ids - set(self.snapshot_ids)))

    @property
    def last_known(self) -> frozenset[str]:
        """Ids of the snapshots that last had the unreachable brokers."""
        return frozenset(broker.last_snapshot_id for broker in self.unreachable)

    @property
    def before_steps(self) -> frozenset[str]:
        """Ids of the snapshots before the window from which its steps start."""
        return frozenset(step.previous_snapshot_id for step in self.steps) - {*self.snapshot_ids}

    @property
    def around_counter_windows(self) -> frozenset[str]:
        """Ids of the snapshots around the beginnings of counter windows."""
        return frozenset(
            snapshot_id
            for counter_window in self.counter_windows
            for snapshot_id in counter_window.snapshot_ids
        )

    @property
    def reach(self) -> Window:
        """The window and the longest time before it that snapshots are read of."""
        return _reach(self.window, self.settings)

    @property
    def dated(self) -> Window:
        """The time before the window whose ``progress.timeline`` dates messages."""
        return Window(self.window.start - self.settings.timeline_reach, self.window.start)

    def before(self, length: timedelta) -> tuple[str, ...]:
        """Return ids of the snapshots that lie at most `length` before the window."""
        time = Window(self.window.start - length, self.window.start)
        return tuple(
            loaded_snapshot.snapshot_id
            for loaded_snapshot in self.known
            if loaded_snapshot.observed_at in time
        )

    def has_rows(self, *tables: Table) -> bool:
        """Return whether one of these raw tables has rows in the window."""
        return any(table.name in self.filled for table in tables)


def plan_run(lake: Lake, window: Window, settings: HistorySettings = DEFAULT_HISTORY) -> RunPlan:
    """Plan the run that computes a window, after its snapshots are loaded.

    Args:
        lake: the tables.
        window: the window; an empty one needs nothing.
        settings: how far back the run reads.
    """
    if window.empty:
        return RunPlan(window=window, settings=settings)
    reach, memory = _reach(window, settings), remembered(window)
    latest = max(window.start, clocks.latest())
    loaded = [
        loaded_snapshot
        for loaded_snapshot in loaded_snapshots(lake, reach, observed_in=window)
        if loaded_snapshot.observed_at <= latest
    ]
    known = [loaded_snapshot for loaded_snapshot in loaded if loaded_snapshot.observed_at in memory]
    inside = [loaded_snapshot for loaded_snapshot in known if loaded_snapshot.observed_at in window]
    before = [
        loaded_snapshot for loaded_snapshot in known if loaded_snapshot.observed_at < window.start
    ]
    decided = decisions(lake, reach)
    quarantined = read_quarantine(lake, Window(reach.start, window.start), decided)
    filled = frozenset(table.name for table in raw.ALL if lake.has_rows(table, window))
    counted = raw.BROKER_STATS.name in filled
    # A snapshot of a clock that was ahead would keep incidents where they are.
    counting = Window.through(window.start - MEMORY, latest)
    computed = newest_computed(lake, counting) if inside else {}
    return RunPlan(
        window=window,
        snapshots=tuple(inside),
        new=tuple(
            loaded_snapshot
            for loaded_snapshot in inside
            if loaded_snapshot.cluster not in computed
            or loaded_snapshot.observed_at > computed[loaded_snapshot.cluster]
        ),
        known=tuple(known),
        rows=measured_rows(lake, window) if inside else 0,
        filled=filled,
        previous=tuple(sorted(previous_snapshots(before, inside, quarantined.hidden, settings))),
        unreachable=tuple(unreachable_brokers(known, window)),
        observations=tuple(recent_observations(known, window, settings.shortest_step)),
        steps=tuple(observation_steps(known, window)),
        counter_windows=tuple(
            counter_windows(loaded, window, settings.longest_gap) if counted else ()
        ),
        system_topics=system_topics(lake, window) if raw.TOPICS.name in filled else (),
        decisions=decided,
        quarantined=quarantined,
        members_reported=_members_reported(lake, window, filled),
        settings=settings,
    )


def _members_reported(lake: Lake, window: Window, filled: Collection[str]) -> bool:
    if raw.CLIENT_QUEUES.name in filled:
        return True
    if raw.CLIENTS.name not in filled:
        return False
    where = all_of(window_filter(raw.CLIENTS, window), one_of("subscriptions_source", ["client"]))
    return lake.read(raw.CLIENTS, where, columns=("snapshot_id",), limit=1).num_rows > 0


def _reach(window: Window, settings: HistorySettings) -> Window:
    return Window(window.start - MEMORY - settings.longest_gap, window.end)


class Outcome(Protocol):
    """The outcome of one expectation on the rows of a table; see ``quality.results``."""

    @property
    def table(self) -> str:
        """Full name of the table."""
        ...

    @property
    def severity(self) -> str:
        """``block`` | ``quarantine`` | ``warn``."""
        ...

    @property
    def unexpected(self) -> int | None:
        """Number of rows that violate it; None when it could not be validated."""
        ...


class StoredOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """An `Outcome` as ``quality.results`` holds it.

    Attributes:
        expectation: name of the expectation.
        success: whether it was met; None where it applied to no row.
    """

    table: str
    expectation: str
    severity: str
    success: bool | None = None
    unexpected: int | None = None


@dataclass(frozen=True, kw_only=True)
class Validation:
    """Outcome of the validation of a window, as far as computations use it.

    Attributes:
        suspects: names of the raw tables that may contain rows that are no measurements. Until
            expectations have validated the window these are all of them.
        hidden: queues whose rows in the window are quarantined or dropped.
    """

    suspects: frozenset[str] = ALL_RAW
    hidden: HiddenQueues = field(default_factory=dict)


NOT_VALIDATED = Validation()


def outcomes_of(lake: Lake, run_id: str) -> list[StoredOutcome]:
    """Return the outcomes that a run under way has stored so far."""
    now = datetime.now(UTC)
    last_day = window_filter(quality.RESULTS, Window(now - timedelta(days=1), now + HOUR))
    columns = StoredOutcome.__struct_fields__
    where = all_of(last_day, one_of("run_id", [run_id]))
    return typed_rows(lake.read(quality.RESULTS, where, columns=columns), StoredOutcome)


def suspect_tables(outcomes: Iterable[Outcome], plan: RunPlan) -> frozenset[str]:
    """Return names of the raw tables that may contain rows that are no measurements.

    A search for such rows takes longer than the computation on valid ones, and there are hardly
    ever any. The expectations have just validated the window. Quarantined rows of earlier snapshots
    are in the quarantine, or a person has decided on them.

    Args:
        outcomes: of the expectations on the window; a table without any is a suspect.
        plan: the plan of the run.
    """
    stored = list(outcomes)
    not_validated = ALL_RAW - {outcome.table for outcome in stored}
    # Not by success: an expectation may tolerate rows that it quarantines. None = not validated.
    violated = {
        outcome.table
        for outcome in stored
        if outcome.severity == "quarantine" and outcome.unexpected != 0
    }
    return not_validated | violated | _known_before(plan)


def tables_with_quarantined_rows(quarantined: Quarantined, plan: RunPlan) -> frozenset[str]:
    """Return names of the tables of which a row is quarantined, or has been decided on.

    All rows of the other tables are valid: nothing needs to search them for others.

    Args:
        quarantined: the quarantine of the window, made from all suspects.
        plan: the plan of the run.
    """
    return quarantined.tables | _known_before(plan)


def _known_before(plan: RunPlan) -> frozenset[str]:
    decided = frozenset(decision.table for decision in plan.decisions)
    return decided | plan.quarantined.tables
