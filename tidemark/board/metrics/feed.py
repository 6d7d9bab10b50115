"""A scrape and its inputs: the newest rows, counters, deliveries, table sizes, tick times."""

import logging
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

import pyarrow as pa
import pyarrow.compute as pc
from fastapi import APIRouter, Request, Response
from pyiceberg.table.snapshots import Operation

from tidemark.board.dependencies import TheView
from tidemark.board.metrics.endpoint import Exports, Facts, Metrics
from tidemark.board.metrics.exposition import Page, SourceRows
from tidemark.board.newest import Newest, until
from tidemark.board.store import WATCHED_SECONDS, Store
from tidemark.board.views.scope import Scope
from tidemark.host.failures import one_line
from tidemark.lake.catalog import Lake
from tidemark.lake.schema import all_of, equal_to, not_before
from tidemark.lake.tables import TABLES, alerting, progress, raw
from tidemark.settings.owners import Owners, WatchedOwners
from tidemark.settings.sections import MetricsSettings

COUNTERS_REACH = timedelta(hours=1)
"""Largest age of the deep snapshot from which the broker's own counters are taken."""

OUTCOME = ("channel", "status", "attempts")
COUNTER = ("observed_at", "cluster", "broker", "broker_id", "stats_name", "topic")
COUNTED = (*COUNTER, "consumer_group", "stats_key", "stats_window", "tps", "sum")


class Feed:
    """Refreshes metrics from the tables, of which only changed ones are read again.

    Attributes:
        tables: the rows of all groups that the metrics were last made of.
        facts: the facts of the same refresh.
    """

    def __init__(
        self, lake: Lake, metrics: Metrics, version: str, owners: WatchedOwners | None = None
    ) -> None:
        """Nothing is read yet.

        Args:
            lake: the tables.
            metrics: the metrics to refresh.
            version: the version of Tidemark.
            owners: the teams of groups; None where nobody declares any.
        """
        self._owners = owners or WatchedOwners()
        self._lake = lake
        self._metrics = metrics
        self._version = version
        self._rows: dict[str, int] = {}
        self.tables: dict[str, pa.Table] = {}
        self.facts = Facts(version=version)
        self._read: dict[str, pa.Table] = {}
        self._seen = Newest()

    def refresh(self, newest: Newest) -> None:
        """Turn the newest rows into metrics.

        Args:
            newest: the rows in memory.

        Raises:
            DamagedError: a file of a table is missing or damaged.
        """
        changed = {
            name
            for name, version in newest.versions.items()
            if self._seen.versions.get(name) != version
        }
        for name in changed & TABLES.keys():
            self._rows[name] = _row_count(self._lake, name)
        if raw.BROKER_STATS.name in changed or newest.at != self._seen.at:
            self._read[raw.BROKER_STATS.name] = _counters(self._lake, newest.at)
        if alerting.NOTIFICATIONS.name in changed:
            self._read[alerting.NOTIFICATIONS.name] = self._lake.read(
                alerting.NOTIFICATIONS, columns=OUTCOME
            )
        seconds = _tick_seconds(self._lake, newest.observed_at)
        facts = Facts(
            version=self._version,
            table_rows=dict(self._rows),
            tick_seconds=seconds,
            owners=self._owners.now(),
        )
        computed = {progress.SNAPSHOTS.name: _computed(newest.at)}
        tables = {**newest.rows, **self._read, **computed}
        self._metrics.refresh(tables, facts)
        self.tables, self.facts = tables, facts
        self._seen = newest


def _computed(at: Mapping[str, datetime]) -> pa.Table:
    columns = {"cluster": list(at), "observed_at": list(at.values())}
    types = progress.SNAPSHOTS.arrow_schema()
    return pa.table({name: pa.array(v, types.field(name).type) for name, v in columns.items()})


def _counters(lake: Lake, at: Mapping[str, datetime]) -> pa.Table:
    """Return the counters of each cluster's newest deep snapshot."""
    if not at:
        return raw.BROKER_STATS.arrow_schema().empty_table()
    recent = not_before("observed_at", min(at.values()) - COUNTERS_REACH)
    where = all_of(recent, equal_to("stats_window", "minute"))
    rows = until(lake.read(raw.BROKER_STATS, where, COUNTED), at)
    newest = rows.group_by("cluster").aggregate([("observed_at", "max")]).to_pylist()
    kept = [
        rows.filter(
            pc.and_(
                pc.equal(rows["cluster"], item["cluster"]),
                pc.equal(rows["observed_at"], item["observed_at_max"]),
            )
        )
        for item in newest
        if item["cluster"] in at and item["observed_at_max"] >= at[item["cluster"]] - COUNTERS_REACH
    ]
    return pa.concat_tables(kept) if kept else rows.slice(0, 0)


def _row_count(lake: Lake, name: str) -> int:
    snapshot = lake.table(name).current_snapshot()
    summary = snapshot.summary if snapshot else None
    return int(summary["total-records"] or 0) if summary else 0


def _tick_seconds(lake: Lake, observed_at: datetime | None) -> float | None:
    """Return how long after the start of the newest snapshot its numbers were written."""
    if observed_at is None:
        return None
    commits = (
        datetime.fromtimestamp(snapshot.timestamp_ms / 1000, UTC)
        for snapshot in lake.table(progress.SNAPSHOTS.name).snapshots()
        if snapshot.summary is None or snapshot.summary.operation is not Operation.REPLACE
    )
    later = [commit for commit in commits if commit >= observed_at]
    return (min(later) - observed_at).total_seconds() if later else None


FIRST_SECONDS = 20.0
"""Longest wait of a scrape for the first metrics after the start."""

_log = logging.getLogger(__name__)

router = APIRouter(tags=["metrics"])


@dataclass
class _OfTeam:
    """Metrics of the groups of teams, and what they were made of."""

    metrics: Metrics
    tables: Mapping[str, pa.Table] | None = None
    owners: Owners | None = None


class MetricsKeeper:
    """Keeps the metrics of a store ready, so that no scrape waits for files.

    Without a scrape for `WATCHED_SECONDS` they are made at the next one.
    """

    def __init__(
        self,
        store: Store,
        settings: MetricsSettings,
        version: str,
        owners: WatchedOwners | None = None,
        exports: Exports | None = None,
    ) -> None:
        """Nothing is read before `start`.

        Args:
            store: the newest rows.
            settings: the families of metrics.
            version: the version of Tidemark.
            owners: the teams of groups; None where nobody declares any.
            exports: counts of exports by OTLP; None without.
        """
        self._store = store
        self._settings = settings
        self._metrics = Metrics(settings, exports)
        self._of_teams: dict[frozenset[str], _OfTeam] = {}
        self._lock = threading.Lock()
        self._feed = Feed(store.lake, self._metrics, version, owners)
        self._ready = threading.Event()
        self._scraped_at = time.monotonic()
        self._making = threading.Lock()
        self._made_of = -1

    def page(self, accept: str, accept_encoding: str, scope: Scope) -> Page:
        """Return the response to a scrape; right after the start it waits for the first metrics.

        Args:
            accept: the header ``Accept``.
            accept_encoding: the header ``Accept-Encoding``.
            scope: what the person sees.
        """
        self._ready.wait(FIRST_SECONDS)
        self._scraped()
        metrics = self._metrics if scope.teams is None else self._of(scope, scope.teams)
        return metrics.page(accept, accept_encoding)

    def rows(self) -> Iterator[SourceRows]:
        """Return the samples of all groups as they are now; see `Metrics.rows`."""
        self._ready.wait(FIRST_SECONDS)
        self._scraped()
        return self._metrics.rows()

    def _scraped(self) -> None:
        """Note a scrape, and make the metrics of rows that nobody has scraped."""
        self._store.watch()
        if not self._is_scraped:
            with self._making:
                if not self._is_scraped and self._made_of != self._store.changes:
                    self._make()
        self._scraped_at = time.monotonic()

    @property
    def _is_scraped(self) -> bool:
        return time.monotonic() - self._scraped_at < WATCHED_SECONDS

    def _of(self, scope: Scope, teams: frozenset[str]) -> Metrics:
        """Return the metrics of the groups of teams, made at the first scrape of other rows."""
        with self._lock:
            of_team = self._of_teams.setdefault(teams, _OfTeam(Metrics(self._settings)))
            tables, owners = self._feed.tables, scope.owners
            if of_team.tables is not tables or of_team.owners is not owners:
                seen = {
                    name: scope.rows(TABLES[name], rows)
                    for name, rows in tables.items()
                    if name in TABLES
                }
                of_team.metrics.refresh(seen, replace(self._feed.facts, owners=owners))
                of_team.tables, of_team.owners = tables, owners
            return of_team.metrics

    def refresh(self) -> None:
        """Take over the rows of the store; if that fails the old metrics stay."""
        with self._making:
            self._make()

    def _make(self) -> None:
        self._made_of = self._store.changes
        try:
            self._feed.refresh(self._store.newest)
        # Whatever the error of the tables is, the server keeps the metrics that it has.
        except Exception as error:
            _log.warning("metrics cannot be refreshed: %s", one_line(error))
        self._ready.set()

    def start(self) -> Callable[[], None]:
        """Refresh in a thread whenever the store has other rows; return a function that ends it."""
        ended = threading.Event()

        def follow() -> None:
            seen = -1
            while not ended.is_set():
                changes = self._store.wait(seen, ended)
                if changes != seen:
                    seen = changes
                    if self._is_scraped:
                        self.refresh()

        thread = threading.Thread(target=follow, name="board-metrics", daemon=True)
        thread.start()

        def end() -> None:
            ended.set()
            self._store.wake()
            thread.join(timeout=10)

        return end


@router.get("/metrics", summary="Metrics of the newest observation, for Prometheus")
def scrape(request: Request, view: TheView) -> Response:
    """Respond in Prometheus text or OpenMetrics, as the header ``Accept`` requests."""
    keeper: MetricsKeeper = request.app.state.metrics
    headers = request.headers
    page = keeper.page(headers.get("accept", ""), headers.get("accept-encoding", ""), view.scope)
    # The encoding is named also where there is none: no middleware compresses the page again.
    named = {
        "Content-Type": page.content_type,
        "Content-Encoding": page.encoding or "identity",
        "Vary": "Accept, Accept-Encoding",
    }
    return Response(page.body, headers=named)
