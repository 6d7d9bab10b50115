"""The tables as a person sees them: what every route, page and tool reads.

A route gets a `View` and no store. All that reads rows, live snapshots and notes of people is a
method of it and passes the `Scope` of the person, so no route can show what the person may not see.
`tidemark.board.application` refuses a route that has no view and is not declared free of groups.
"""

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

import pyarrow as pa
from fastapi.concurrency import run_in_threadpool

from tidemark.alerting import annotations as notes
from tidemark.alerting.annotations import Annotation, AnnotationError
from tidemark.alerting.audit_trail import Sources, sources_of, trail
from tidemark.alerting.delivery import silences
from tidemark.alerting.delivery.notification_log import notifications_of
from tidemark.alerting.delivery.silences import Silence, SilenceError
from tidemark.alerting.incidents.actions import (
    NoSuchIncidentError,
    acknowledge,
    incident_of,
    resolve,
)
from tidemark.alerting.incidents.incident import Incident
from tidemark.alerting.recorded_actions import Action, record_diagnosis
from tidemark.board import group_history
from tidemark.board.access import Person
from tidemark.board.group_history import HealthChanges
from tidemark.board.http_responses import ProblemError
from tidemark.board.newest import Newest, of_cluster
from tidemark.board.past import PastRows, group_rows_between, rows_between
from tidemark.board.store import Store
from tidemark.board.trends import GROUPS, Listed, Points, Trends, forecasts
from tidemark.board.views.live import Diagnoses, LiveSnapshots, require_group
from tidemark.board.views.scope import Scope, decisive_columns
from tidemark.lake.clocks import Window
from tidemark.lake.landing import Landed, aside
from tidemark.lake.schema import Table
from tidemark.lake.tables import progress, raw
from tidemark.lake.typed_rows import plain_rows
from tidemark.live.broker_times import ByOurClock
from tidemark.live.diagnosis import Diagnosis
from tidemark.planning import quarantine_decisions as quarantine
from tidemark.planning.quarantine_decisions import UNDONE, Decision, QuarantinedRow
from tidemark.settings.home import Home
from tidemark.settings.owners import Owners, WatchedOwners

NOT_OWN = "consumer_group: patterns are wanted that match groups of your team and of no other"
"""Refusal of a silence or annotation of a team's user that is about other groups too."""


class Shown:
    """The rows behind a page or a response, as a person sees them.

    Attributes:
        at: cluster -> instant of its newest computed snapshot, now or as of an instant.
        scope: what the person sees.
    """

    def __init__(self, base: Newest | PastRows, scope: Scope) -> None:
        """Show rows that are in memory.

        Args:
            base: the rows of all groups.
            scope: what the person sees.
        """
        self.at: Mapping[str, datetime] = base.at
        self.scope = scope
        self._base = base
        self._rows: dict[str, pa.Table] = {}
        self._lock = threading.Lock()

    @property
    def observed_at(self) -> datetime | None:
        """The instant of the newest snapshot of all clusters."""
        return self._base.observed_at

    @property
    def changes(self) -> int | None:
        """How often rows had been read, these included; None for those of the past."""
        return self._base.changes if isinstance(self._base, Newest) else None

    @property
    def owners(self) -> Owners:
        """The teams of groups."""
        return self.scope.owners

    def of(self, table: Table, cluster: str | None = None) -> pa.Table:
        """Return the rows of a table, of one cluster or of all; those of groups have a team."""
        with self._lock:
            if table.name not in self._rows:
                rows = self.scope.rows(table, self._base.of(table))
                self._rows[table.name] = (
                    self.scope.with_team(rows) if table.name == progress.GROUPS.name else rows
                )
            return of_cluster(self._rows[table.name], table, cluster)

    def trends_of(self, store: Store) -> Trends:
        """Return the last hours of all groups, whoever sees them."""
        return store.trends(self._base)

    def points_of(self, store: Store, listed: Listed) -> Points:
        """Return the last hours of topics or brokers, whoever sees them."""
        return store.points(self._base, listed)


class SeenPoints:
    """The last hours of every row of a list that the person sees."""

    def __init__(self, points: Points, listed: Listed, scope: Scope) -> None:
        self._points = points
        self._key = listed.key
        self._scope = scope

    def of(self, *key: str) -> list[dict[str, Any]]:
        """Return the observations of the row with a key in order of time."""
        if not self._scope.sees(dict(zip(self._key, key, strict=True))):
            return []
        return self._points.of(*key)


class Views:
    """Makes the view of a person; the rows that a team sees are kept as long as all rows are."""

    def __init__(
        self,
        store: Store,
        owners: WatchedOwners,
        live: LiveSnapshots,
        diagnoses: Diagnoses,
    ) -> None:
        """Know what is shown; nothing is read yet."""
        self.store = store
        self.owners = owners
        self.live = live
        self.diagnoses = diagnoses
        self._shown: WeakKeyDictionary[Newest | PastRows, dict[Any, Shown]] = WeakKeyDictionary()
        self._lock = threading.Lock()

    def of(self, person: Person) -> "View":
        """Return what a person sees."""
        return View(self, person.teams)

    def shown(self, base: Newest | PastRows, owners: Owners, teams: frozenset[str] | None) -> Shown:
        """Return rows as the users of teams see them."""
        with self._lock:
            kept = self._shown.setdefault(base, {})
            # A changed file has other owners: what was kept by the old ones is shown no more.
            key = owners, teams
            if key not in kept:
                for old in [old for old in kept if old[0] is not owners]:
                    del kept[old]
                kept[key] = Shown(base, Scope(owners, teams, self._known(base)))
            return kept[key]

    def _known(self, base: Newest | PastRows) -> Callable[[], frozenset[tuple[str, str]]]:
        """Return a function that gives cluster and name of all groups, and finds them once."""
        pairs: list[frozenset[tuple[str, str]]] = []

        def known() -> frozenset[tuple[str, str]]:
            if not pairs:
                pairs.append(_groups_of(base) | _groups_of(self.store.newest))
            return pairs[0]

        return known


def _groups_of(rows: Newest | PastRows) -> frozenset[tuple[str, str]]:
    tables = (rows.of(progress.GROUPS), rows.of(raw.CONSUMER_GROUPS))
    pairs = (
        zip(table["cluster"].to_pylist(), table["consumer_group"].to_pylist(), strict=True)
        for table in tables
    )
    return frozenset(pair for of_table in pairs for pair in of_table)


class View:
    """The tables, the brokers now and the notes of people, as far as a person sees them.

    Attributes:
        teams: the teams of the person; None where they see everything.
    """

    def __init__(self, views: Views, teams: frozenset[str] | None) -> None:
        self.teams = teams
        self._views = views
        self._store = views.store

    # The tables.

    @cached_property
    def newest(self) -> Shown:
        """The newest rows."""
        return self._shown(self._store.newest)

    def at(self, instant: datetime) -> Shown:
        """Return the rows that were the newest at an instant.

        Raises:
            DamagedError: a file of a table is missing or damaged.
        """
        return self._shown(self._store.past.at(instant))

    @cached_property
    def owners(self) -> Owners:
        """The teams of groups."""
        return self._views.owners.now()

    @property
    def team_names(self) -> list[str]:
        """The teams that the person may filter by."""
        names = self.owners.teams
        return sorted(names if self.teams is None else names & self.teams)

    @property
    def scope(self) -> Scope:
        """The scope of the person."""
        return self.newest.scope

    @property
    def is_empty(self) -> bool:
        """Whether nothing was ever computed."""
        return self._store.is_empty

    @property
    def problem(self) -> str | None:
        """Why the tables could not be read at the last check; None when they were."""
        return self._store.problem

    @property
    def home(self) -> Home:
        """The home of this deployment."""
        return self._store.lake.home

    @property
    def data_docs(self) -> Path | None:
        """The folder of Great Expectations' pages; None without any.

        Their samples may name any group, so the users of a team do not see them.
        """
        pages = self.home.path / "data_docs" / "uncommitted" / "data_docs"
        built = sorted(pages.glob("*/index.html")) if self.teams is None else []
        return built[0].parent if built else None

    def ahead(self, now: datetime) -> list[Mapping[str, Any]]:
        """Return the snapshots that lie in the future, by a clock that is ahead."""
        return self._store.ahead(now)

    def aside(self) -> list[Landed]:
        """Return the snapshots of wrong clocks that are set aside.

        Raises:
            OSError: the landing cannot be read.
        """
        return aside(self._store.lake.landing)

    def trends(self, rows: Shown) -> SeenPoints:
        """Return the last hours of groups until what is shown; nothing where unreadable."""
        return SeenPoints(rows.trends_of(self._store), GROUPS, self.scope)

    def points(self, rows: Shown, listed: Listed) -> SeenPoints:
        """Return the last hours of topics or brokers until what is shown; none if unreadable."""
        return SeenPoints(rows.points_of(self._store, listed), listed, self.scope)

    def with_forecasts(
        self, rows: Shown, listed: Listed, of_list: Sequence[Mapping[str, Any]]
    ) -> list[dict[str, Any]]:
        """Return rows of a list among those that are shown, with their ``forecasts``."""
        if not of_list:
            return []
        points = self.trends(rows) if listed is GROUPS else self.points(rows, listed)
        return [
            {**row, "forecasts": forecasts(points.of(*(row[name] for name in listed.key)), listed)}
            for row in of_list
        ]

    def health_changes(
        self, rows: Shown, window: Window, equal: Mapping[str, str] | None = None
    ) -> HealthChanges:
        """Return changes of health in a window that ends with what is shown.

        Args:
            rows: what is shown.
            window: the window.
            equal: column to value, of the group or topic; None for all.
        """
        if self.is_empty:
            return HealthChanges(window=window)
        recent = rows.trends_of(self._store).changes
        changes = self._store.health.changes(window, recent, equal or {})
        seen = self.scope.rows(progress.GROUPS, changes.rows)
        return replace(changes, rows=seen)

    def rows_between(
        self,
        table: Table,
        window: Window,
        equal: Mapping[str, str],
        columns: Sequence[str] = (),
    ) -> pa.Table:
        """Return rows of a window; see `tidemark.board.past.rows_between`."""
        lake, files = self._store.lake, self._store.files
        if self.teams is None:
            return rows_between(lake, files, table, window, equal, columns)
        names = list(dict.fromkeys([table.instant, *columns])) if columns else table.column_names
        wanted = (*names, *decisive_columns(table))
        rows = rows_between(lake, files, table, window, equal, wanted)
        return self.scope.rows(table, rows).select(names)

    def group_rows_between(
        self, window: Window, equal: Mapping[str, str], columns: Sequence[str]
    ) -> pa.Table:
        """Return rows of one group; see `tidemark.board.past.group_rows_between`."""
        rows = group_rows_between(self._store.lake, self._store.files, window, equal, columns)
        return rows if self.scope.sees(equal) else rows.slice(0, 0)

    def history(
        self, window: Window, equal: Mapping[str, str], names: Sequence[str], *, by_day: bool
    ) -> pa.Table:
        """Return a group on a topic over time; see `GroupHistory.rows`."""
        if not self.scope.sees(equal):
            return group_history.empty(names)
        return self._store.groups.rows(window, equal, names, by_day=by_day)

    # The brokers now.

    @property
    def configured(self) -> list[str]:
        """The keys of the clusters of which live snapshots may be taken."""
        return self._views.live.names

    async def live(self, name: str) -> ByOurClock:
        """Return a snapshot of a cluster that is some seconds old at most.

        Raises:
            ProblemError: see `LiveSnapshots.of`.
        """
        try:
            snapshot = await self._views.live.of(name)
        except ProblemError as error:
            raise self._without_text(error) from error
        return await run_in_threadpool(lambda: self.scope.snapshot(snapshot))

    async def diagnosis(self, name: str, group: str, topic: str, author: str) -> Diagnosis:
        """Return a diagnosis of a group, some seconds old at most, and record who wants it.

        Raises:
            ProblemError: see `Diagnoses.of`.
        """
        require_group(await self.live(name), group)
        diagnosis = await self._views.diagnoses.of(name, group, topic)
        about = {"cluster": diagnosis.cluster, "consumer_group": group, "topic": topic or None}
        shared, now = self._store.lake.shared, datetime.now(UTC)
        await run_in_threadpool(lambda: record_diagnosis(shared, author, now, **about))
        return diagnosis

    def _without_text(self, error: ProblemError) -> ProblemError:
        """Return the problem of a cluster without the words of a broker, which may name groups."""
        if self.teams is None or error.status != 503 or error.headers:
            return error
        return ProblemError(503, "this cluster cannot be read now")

    # Incidents.

    def incident(self, incident_id: str) -> tuple[Incident, list[dict[str, Any]]]:
        """Return an incident of any age, and its rows of ``alerting.notifications``.

        Raises:
            NoSuchIncidentError: there is none, or the person does not see it.
        """
        incident = incident_of(self._store.lake, incident_id)
        if not self.scope.sees_incident(plain_rows([incident])[0]):
            raise NoSuchIncidentError(f"no incident {incident_id!r}")
        return incident, notifications_of(self._store.lake, incident)

    def act(self, action: str, incident_id: str, author: str, reason: str) -> Incident:
        """Acknowledge or resolve an incident, and show the result at once.

        Raises:
            IncidentError: there is no such incident, or its state does not allow it.
            HeldError: a tick is writing.
            ProblemError: the person sees it, and it is not about a group of theirs.
        """
        before, _ = self.incident(incident_id)
        if self.teams is not None and before.row.get("consumer_group") is None:
            raise ProblemError(403, "users of a team act on incidents of its groups only")
        work = {"acknowledge": acknowledge, "resolve": resolve}[action]
        after = work(self._store.lake, incident_id, author, reason)
        self._store.refresh()
        self.__dict__.pop("newest", None)
        return after

    # Silences and annotations.

    def silences(self) -> list[Silence]:
        """Return silences of the person's groups, and of everything; the first to end first.

        Raises:
            UnreadableSilencesError: they cannot be read.
        """
        kept = silences.silences(self._store.lake.shared.state)
        return [silence for silence in kept if self.scope.sees_match(silence.match)]

    def silence(
        self,
        match: Mapping[str, tuple[str, ...]],
        until: datetime,
        author: str,
        comment: str,
        starts_at: datetime | None,
    ) -> Silence:
        """Add a silence; see `tidemark.alerting.delivery.silences.silence`."""
        if not self.scope.owns(match):
            raise SilenceError(NOT_OWN)
        return silences.silence(
            self._store.lake.shared, match, until, author, comment, starts_at=starts_at
        )

    def unsilence(self, silence_id: str, author: str, reason: str) -> None:
        """End a silence; see `tidemark.alerting.delivery.silences.unsilence`."""
        if self.teams is not None:
            of_all = silences.silences(self._store.lake.shared.state)
            own = {it.silence_id for it in of_all if self.scope.owns(it.match)}
            if silence_id not in own:
                raise SilenceError(f"no silence {silence_id!r} of your team")
        silences.unsilence(self._store.lake.shared, silence_id, author, reason)

    def annotations(self) -> list[Annotation]:
        """Return annotations of the person's groups, and of everything; the newest first.

        Raises:
            UnreadableAnnotationsError: they cannot be read.
        """
        kept = notes.annotations(self._store.lake.shared.state)
        return [note for note in kept if self.scope.sees_match(note.match)]

    def annotate(
        self, text: str, author: str, at: datetime | None, match: Mapping[str, tuple[str, ...]]
    ) -> Annotation:
        """Add an annotation; see `tidemark.alerting.annotations.annotate`."""
        if not self.scope.owns(match):
            raise AnnotationError(NOT_OWN)
        return notes.annotate(self._store.lake.shared, text, author, at, match)

    def remove_annotation(self, annotation_id: str, author: str) -> None:
        """Remove an annotation; see `tidemark.alerting.annotations.remove`."""
        if self.teams is not None:
            of_all = notes.annotations(self._store.lake.shared.state)
            own = {it.annotation_id for it in of_all if self.scope.owns(it.match)}
            if annotation_id not in own:
                raise AnnotationError(f"no annotation {annotation_id!r} of your team")
        notes.remove(self._store.lake.shared, annotation_id, author)

    def actions(self, window: Window) -> pa.Table:
        """Return what people did in a window, as far as the person sees what it is about.

        Returns:
            Rows as `tidemark.alerting.audit_trail.ACTIONS` declares them, the newest first.

        Raises:
            SilenceError, UnreadableAnnotationsError, DamagedError: a part cannot be read.
        """
        sources, scope = sources_of(self._store.lake, window), self.scope
        seen = Sources(
            silences=[it for it in sources.silences if scope.sees_match(it.match)],
            annotations=[it for it in sources.annotations if scope.sees_match(it.match)],
            incidents=[it for it in sources.incidents if scope.sees_incident(plain_rows([it])[0])],
            decisions=[it for it in sources.decisions if scope.sees_quarantined(it.row)],
            recorded=[it for it in sources.recorded if self._sees_recorded(it)],
            refused=sources.refused if self.teams is None else (),
        )
        return trail(seen, window)

    def _sees_recorded(self, action: Action) -> bool:
        is_of_group = self.teams is None or action.consumer_group is not None
        return is_of_group and self.scope.sees(asdict(action))

    # Quarantined rows.

    def decided_rows(self) -> dict[str, Decision]:
        """Return the last decision on each row by id; see `quarantine_decisions`."""
        return self._quarantined(quarantine.decided_rows(self._store.lake))

    def known_rows(self) -> dict[str, QuarantinedRow]:
        """Return quarantined rows and rows with a decision by id; see `quarantine_decisions`."""
        return self._quarantined(quarantine.known_rows(self._store.lake))

    def decide(
        self, row_ids: Sequence[str], decision: str, author: str, comment: str
    ) -> tuple[list[Decision], Window | None]:
        """Record a decision on rows that the person sees; see `quarantine_decisions.decide`.

        Raises:
            ProblemError: one of the rows does not exist.
        """
        known = self.decided_rows() if decision == UNDONE else self.known_rows()
        if missing := [name for name in row_ids if name not in known]:
            raise ProblemError(404, f"no such row: {', '.join(missing)[:200]}; reload the page")
        rows = [known[name] for name in row_ids]
        return quarantine.decide(self._store.lake, rows, decision, author, comment)

    def hours_to_compute(self, rows: Sequence[QuarantinedRow]) -> Window | None:
        """Return the hours that follow a decision; see `quarantine_decisions`."""
        return quarantine.hours_to_compute(self._store.lake, rows)

    def _quarantined(self, rows: dict[str, Any]) -> dict[str, Any]:
        return {name: row for name, row in rows.items() if self.scope.sees_quarantined(row.row)}

    def _shown(self, base: Newest | PastRows) -> Shown:
        return self._views.shown(base, self.owners, self.teams)
