"""What has been loaded and computed, and what a window needs from before it.

All of it follows from ``raw.snapshots`` and ``progress.snapshots``, a row per snapshot: reading
them costs milliseconds, and no run has to search the large tables for their past.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import islice
from json import loads

from lake.catalog import Lake
from lake.decisions import DROPPED, Decision, decisions
from lake.memory import MEMORY
from lake.settings import whole_number
from lake.tables import progress, quality, raw
from lake.window import Window

HOLE = timedelta(minutes=whole_number("TIDEMARK_HOLE_MINUTES", 10))
"""The longest hole between two observations that a rate is still computed over
(``TIDEMARK_HOLE_MINUTES``)."""

DATED = timedelta(hours=whole_number("TIDEMARK_TIMELINE_HOURS", 72))
"""How far back messages are dated by the growth of their queue: the brokers' retention, or more
(``TIDEMARK_TIMELINE_HOURS``)."""

OBSERVATIONS = 10
"""How many observations of a group, with the newest, its health is told from."""

SOUGHT = 3
"""How many looks from before the longest hole are read for what may have come back after it."""

PAUSE = MEMORY / (OBSERVATIONS - 1)
"""Observations further apart do not belong together; so those of a window, and the ones that count
with them, never reach further back than `MEMORY`."""

WITHOUT_QUEUES = ("local_offsets", "stats_log")
"""Sources of snapshots that never hold queues."""

HIDING = (raw.QUEUE_OFFSETS.name, raw.CONSUMER_OFFSETS.name)
"""Tables of which a row that is set aside hides a queue."""

MANY = 20_000
"""Of more rows that are set aside nobody asks one by one which queues they hide."""

Place = tuple[str | None, str | None]
"""A broker and a topic; None where a row does not tell which."""

_END = datetime(9999, 1, 1, tzinfo=UTC)


@dataclass(frozen=True)
class Look:
    """One loaded snapshot, as far as planning is concerned.

    Attributes:
        snapshot_id: its id.
        cluster: its cluster.
        observed_at: its start.
        status: ``COMPLETE`` | ``PARTIAL`` | ``FAILED``.
        brokers_read: broker groups whose offsets it holds.
        source: where it was read; None counts as ``remote``.
        brokers_expected: addresses that should have answered; None or 0 where nobody could tell.
        keys_read: digest of the queues and consumers it holds; None for one loaded without it.
    """

    snapshot_id: str
    cluster: str
    observed_at: datetime
    status: str
    brokers_read: frozenset[str]
    source: str | None = None
    brokers_expected: int | None = None
    keys_read: str | None = None

    @property
    def is_of_all_brokers(self) -> bool:
        """Whether a broker missing from it was silent: files tell of their own broker only."""
        return self.source in (None, "remote")

    @property
    def is_witness(self) -> bool:
        """Whether a broker missing from it was asked: not where the look itself went wrong."""
        return self.is_of_all_brokers and (self.status != "FAILED" or bool(self.brokers_expected))

    @property
    def is_of_groups(self) -> bool:
        """Whether it observes groups: counters and clients' files tell of no queues."""
        return self.source not in WITHOUT_QUEUES


@dataclass(frozen=True)
class Silent:
    """A broker that a snapshot should hold and does not.

    Attributes:
        snapshot_id: the snapshot with the hole.
        broker: the silent broker group.
        last_snapshot_id: the newest earlier snapshot that holds it.
    """

    snapshot_id: str
    broker: str
    last_snapshot_id: str


@dataclass(frozen=True)
class Observation:
    """An observation of the groups of a cluster.

    Attributes:
        snapshot_id: its snapshot.
        number: its place. Numbers count one by one in a cluster, and jump by `OBSERVATIONS` over a
            pause; only their differences mean something.
        counts_for: ids of the window's snapshots whose health is told from it too, and how many
            observations each is later.
    """

    snapshot_id: str
    number: int
    counts_for: Mapping[str, int]


@dataclass(frozen=True)
class Plan:
    """What computing a window takes.

    Attributes:
        window: what is computed and replaced.
        looks: the snapshots in the window.
        rows: how many offsets of queues and consumers it holds, about.
        earlier: ids of snapshots before the window that hold the previous observations.
        silent: holes in the window, with where to find what they hide.
        observations: those of groups in the window, and the last `OBSERVATIONS` - 1 before it.
        decisions: what people have decided on rows of the window, and of before as far as `reach`.
    """

    window: Window
    looks: tuple[Look, ...] = ()
    rows: int = 0
    earlier: tuple[str, ...] = ()
    silent: tuple[Silent, ...] = field(default=())
    observations: tuple[Observation, ...] = ()
    decisions: tuple[Decision, ...] = ()

    @property
    def snapshots(self) -> tuple[str, ...]:
        """Ids of the snapshots in the window."""
        return tuple(look.snapshot_id for look in self.looks)

    @property
    def recent(self) -> tuple[str, ...]:
        """Ids of the snapshots before the window among `observations`."""
        return tuple(sorted({it.snapshot_id for it in self.observations} - set(self.snapshots)))

    @property
    def reach(self) -> Window:
        """The window and what it reads from before, at most."""
        return _reach(self.window)

    @property
    def dated(self) -> Window:
        """What stands in ``progress.timeline`` from before the window, and messages date from."""
        return Window(self.window.start - DATED, self.window.start)


def _reach(window: Window) -> Window:
    return Window(window.start - MEMORY - HOLE, window.end)


def pending_window(lake: Lake, hours_back: int) -> Window | None:
    """The window of loaded snapshots that are not computed yet; None when there is none.

    A snapshot that landed late lies among computed ones. Then whole hours are computed again: the
    previous observation of its neighbours has changed, and only at hour boundaries is a window
    sure not to cut through a data file.

    Args:
        lake: the tables.
        hours_back: how old a snapshot may be to be looked for.
    """
    reach = Window(datetime.now(UTC) - timedelta(hours=hours_back), _END)
    loaded = looks(lake, reach)
    computed = set(
        lake.read(progress.SNAPSHOTS, reach, columns=("snapshot_id",))["snapshot_id"].to_pylist()
    )
    missing = [look.observed_at for look in loaded if look.snapshot_id not in computed]
    if not missing:
        return None
    start = min(missing)
    late = any(look.snapshot_id in computed and look.observed_at >= start for look in loaded)
    if late:
        return Window(start, loaded[-1].observed_at).whole_hours(inclusive=True)
    return Window.through(start, max(missing))


def plan(lake: Lake, window: Window) -> Plan:
    """What computing a window takes from before it."""
    known = looks(lake, remembered(window))
    before_window = Window(window.start - MEMORY, window.start)
    inside = [look for look in known if look.observed_at in window]
    before = [look for look in known if look.observed_at < window.start]
    return Plan(
        window,
        looks=tuple(inside),
        rows=measured_rows(lake, window) if inside else 0,
        earlier=tuple(sorted(_previous(before, inside, hidden_places(lake, before_window)))),
        silent=tuple(_silent(known, inside)),
        observations=tuple(_observations(known, window)),
        decisions=decisions(lake, _reach(window)),
    )


def measured_rows(lake: Lake, window: Window) -> int:
    """About how many offsets of queues and consumers are loaded of a window: its size."""
    return sum(lake.at_most(table, window) for table in (raw.QUEUE_OFFSETS, raw.CONSUMER_OFFSETS))


def remembered(window: Window) -> Window:
    """The window and `MEMORY` before it."""
    return Window(window.start - MEMORY, window.end)


def looks(lake: Lake, window: Window) -> list[Look]:
    """The loaded snapshots of a window in order of time."""
    columns = (
        "snapshot_id",
        "cluster",
        "observed_at",
        "status",
        "brokers_read",
        "source",
        "brokers_expected",
        "keys_read",
    )
    found = lake.read(raw.SNAPSHOTS, window, columns=columns).to_pylist()
    return sorted(
        (Look(**row | {"brokers_read": frozenset(row["brokers_read"] or ())}) for row in found),
        key=lambda look: (look.observed_at, look.snapshot_id),
    )


def window_of(found: Sequence[Look]) -> Window:
    """The smallest window with all of some snapshots, which are in order of time."""
    return Window.through(found[0].observed_at, found[-1].observed_at)


def complete_before(
    known: Iterable[Look], window: Window, longer_ago: timedelta
) -> dict[str, Look]:
    """The newest complete look at its cluster before each snapshot of a window, by snapshot id.

    Args:
        known: snapshots of what is `remembered` of the window, in order of time.
        window: looks at single brokers' files have none.
        longer_ago: only where it is longer ago than that; never longer than `MEMORY`.
    """
    newest: dict[str, Look] = {}
    found: dict[str, Look] = {}
    for look in known:
        if not look.is_of_all_brokers:
            continue
        before = newest.get(look.cluster)
        lies_back = look.observed_at - before.observed_at if before else timedelta(0)
        if before and look.observed_at in window and longer_ago < lies_back <= MEMORY:
            found[look.snapshot_id] = before
        if look.status == "COMPLETE":
            newest[look.cluster] = look
    return found


def hidden_places(lake: Lake, window: Window) -> Mapping[str, set[Place]]:
    """What snapshots lack queues of, by id: their rows are quarantined, or were until dropped."""
    many = lake.at_most(quality.QUARANTINE, window) > MANY
    columns = ("snapshot_id", "table") if many else ("snapshot_id", "table", "row")
    found = lake.read(quality.QUARANTINE, window, columns=columns).to_pylist()
    found += [vars(each) for each in decisions(lake, window) if each.decision == DROPPED]
    lacking: dict[str, set[Place]] = {}
    for row in found:
        if row["table"] in HIDING and row["snapshot_id"]:
            told = {} if many else loads(row["row"])
            places = lacking.setdefault(row["snapshot_id"], set())
            places.add((told.get("broker"), told.get("topic")))
    return lacking


def _previous(
    before: Sequence[Look], inside: Sequence[Look], lacking: Collection[str]
) -> Iterable[str]:
    """Snapshots that hold the last observation of every queue before a window.

    That is the newest of each broker, and what was seen in the minutes before it and not in it: a
    topic deleted meanwhile, what only deep looks find, a broker silent for once. Of looks that
    hold the same keys the newest has them all, unless rows of it are quarantined. Where the window
    holds keys that none of these has, some may have come back after longer: a few older ones too.
    """
    newest: dict[tuple[str, str], Look] = {}
    for look in before:
        for broker in look.brokers_read:
            newest[look.cluster, broker] = look
    chosen = {look.snapshot_id for look in newest.values()}
    for last in set(newest.values()):
        back = [
            look
            for look in reversed(before)
            if look.cluster == last.cluster and look.observed_at <= last.observed_at
        ]
        holes_end = last.observed_at - HOLE
        covered: set[str | None] = set()
        for look in back:
            if look.observed_at >= holes_end and look.keys_read not in covered:
                chosen.add(look.snapshot_id)
                told = look.keys_read is not None or look.status == "COMPLETE"
                if told and look.snapshot_id not in lacking:
                    covered.add(look.keys_read)
        wanted = {look.keys_read for look in inside if look.cluster == last.cluster} - {None}
        if wanted <= covered:
            continue
        older: dict[str | None, str] = {}
        for look in back:
            if look.observed_at < holes_end and look.snapshot_id not in lacking:
                older.setdefault(look.keys_read, look.snapshot_id)
        others = (found for read, found in older.items() if read and read not in covered)
        chosen.update(islice(others, SOUGHT))
    return chosen


def _silent(known: Sequence[Look], inside: Sequence[Look]) -> Iterable[Silent]:
    targets = {look.snapshot_id for look in inside}
    newest: dict[str, dict[str, Look]] = {}
    for look in known:
        brokers = newest.setdefault(look.cluster, {})
        if look.snapshot_id in targets and look.is_of_all_brokers:
            for broker, last in sorted(brokers.items()):
                young = look.observed_at - last.observed_at <= MEMORY
                if broker not in look.brokers_read and young:
                    yield Silent(look.snapshot_id, broker, last.snapshot_id)
        for broker in look.brokers_read:
            brokers[broker] = look


def _observations(known: Sequence[Look], window: Window) -> Iterator[Observation]:
    """The observations that the window's health is told from."""
    last: dict[str, tuple[Look, int]] = {}
    numbers: dict[str, dict[str, int]] = {}
    told: dict[str, dict[int, str]] = {}
    for look in known:
        if not look.is_of_groups:
            continue
        number = 0
        if look.cluster in last:
            before, number = last[look.cluster]
            number += 1 if look.observed_at - before.observed_at <= PAUSE else OBSERVATIONS
        last[look.cluster] = look, number
        numbers.setdefault(look.cluster, {})[look.snapshot_id] = number
        if look.observed_at in window:
            told.setdefault(look.cluster, {})[number] = look.snapshot_id
    for cluster, later in told.items():
        for snapshot_id, number in numbers[cluster].items():
            those = {later.get(number + after): after for after in range(OBSERVATIONS)}
            counts_for = {each: after for each, after in those.items() if each}
            if counts_for:
                yield Observation(snapshot_id, number, counts_for)
