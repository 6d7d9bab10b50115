"""The plan of one run: all inputs of its computations, decided once before the first of them."""

from collections.abc import Collection
from dataclasses import dataclass, field
from datetime import timedelta

from lake import clocks
from lake.catalog import Lake
from lake.conditions import all_of, one_of, window_filter
from lake.counter_windows import CounterWindow, counter_windows
from lake.decisions import Decision, decisions
from lake.hidden_queues import Quarantined, read_quarantine
from lake.history import (
    LoadedSnapshot,
    loaded_snapshots,
    measured_rows,
    newest_computed,
    remembered,
)
from lake.observation_steps import Step, observation_steps
from lake.previous_observations import previous_snapshots
from lake.recent_observations import Observation, recent_observations
from lake.schema import Table
from lake.system_topics import NamedTopics, system_topics
from lake.tables import raw
from lake.unreachable_brokers import UnreachableBroker, unreachable_brokers
from lake.window import Window
from settings.constants import MEMORY
from settings.history import DEFAULT_HISTORY, HistorySettings


@dataclass(frozen=True)
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
            snapshot_id for each in self.counter_windows for snapshot_id in each.snapshot_ids
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
        return tuple(each.snapshot_id for each in self.known if each.observed_at in time)

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
        return RunPlan(window, settings=settings)
    reach, memory = _reach(window, settings), remembered(window)
    latest = max(window.start, clocks.latest())
    loaded = [
        each
        for each in loaded_snapshots(lake, reach, observed_in=window)
        if each.observed_at <= latest
    ]
    known = [each for each in loaded if each.observed_at in memory]
    inside = [each for each in known if each.observed_at in window]
    before = [each for each in known if each.observed_at < window.start]
    decided = decisions(lake, reach)
    quarantined = read_quarantine(lake, Window(reach.start, window.start), decided)
    filled = frozenset(table.name for table in raw.ALL if lake.has_rows(table, window))
    counted = raw.BROKER_STATS.name in filled
    # A snapshot of a clock that was ahead would keep incidents where they are.
    counting = Window.through(window.start - MEMORY, latest)
    computed = newest_computed(lake, counting) if inside else {}
    return RunPlan(
        window,
        snapshots=tuple(inside),
        new=tuple(
            each
            for each in inside
            if each.cluster not in computed or each.observed_at > computed[each.cluster]
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
