"""The metrics of a server: refreshed when a table changes, and written at each scrape."""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from enum import StrEnum

import pyarrow as pa

from tidemark.board.metrics import exporter_brokers, exporter_groups, native, own
from tidemark.board.metrics.exposition import (
    Lines,
    Page,
    Samples,
    Source,
    SourceRows,
    families,
    page,
)
from tidemark.board.metrics.native import Totals
from tidemark.lake.tables import alerting, raw
from tidemark.settings.owners import Owners
from tidemark.settings.sections import MetricsSettings

KEPT = (*native.SOURCES, *exporter_groups.SOURCES, *exporter_brokers.SOURCES, *own.SOURCES)
"""Sources of many rows, which change only when a table does; gauges only."""

FEW = (*exporter_brokers.OF_RUNTIME, *own.OF_ITSELF)
"""Sources of few rows, written at each scrape; some have counters, and one follows the clock."""

SOURCES = (*KEPT, *FEW)


@dataclass(frozen=True, kw_only=True)
class Facts:
    """Facts that metrics export and no row of a table contains.

    Attributes:
        version: the version of Tidemark.
        table_rows: rows of each table by its name.
        tick_seconds: from the start of the newest snapshot to the commit of its numbers.
        owners: the teams of groups.
    """

    version: str = ""
    table_rows: Mapping[str, int] = field(default_factory=dict)
    tick_seconds: float | None = None
    owners: Owners = field(default_factory=Owners)


class ExportOutcome(StrEnum):
    """Outcomes of an export of all samples by OTLP."""

    DELIVERED = "delivered"
    FAILED = "failed"


class Exports:
    """Counts of the outcomes of exports of all samples by OTLP."""

    def __init__(self) -> None:
        """Nothing was exported."""
        self._counts: Counter[str] = Counter()

    def count(self, outcome: ExportOutcome) -> None:
        """Count an export."""
        self._counts[outcome] += 1

    def with_counts(self, rows: SourceRows) -> SourceRows:
        """Return the rows of `own.EXPORTS` with the present counts."""
        (outcomes,) = rows.label_texts
        counts: list[float | None] = [self._counts[outcome] for outcome in outcomes]
        return replace(rows, values=[(metric, counts) for metric, _ in rows.values])


class Metrics:
    """The metrics of one server; a scrape never waits for a refresh."""

    def __init__(self, settings: MetricsSettings, exports: Exports | None = None) -> None:
        """Nothing is known before the first refresh; families that are off stay off.

        Args:
            settings: the families that are on.
            exports: counts of exports by OTLP, for which rows are kept too; None without.
        """
        self._families = settings.families
        self._totals = Totals()
        self._exports = exports
        self._kept = Lines()
        self._kept_rows: list[SourceRows] = []
        self._few: tuple[list[tuple[Source, SourceRows]], datetime] | None = None

    def refresh(self, tables: Mapping[str, pa.Table], facts: Facts) -> None:
        """Replace the samples by those of the newest rows.

        Args:
            tables: the newest rows by the name of their table, see
                `tidemark.board.metrics.exposition`.
            facts: facts that no row contains.
        """
        now = datetime.now(UTC)
        with Samples(tables) as samples:
            samples.set_clock(now)
            samples.set_owners(facts.owners)
            for name, rows in (_extra(facts) | self._counted(tables)).items():
                samples.add(name, rows)
            outcomes = [] if self._exports is None else list(ExportOutcome)
            samples.add("exports", pa.table({"outcome": pa.array(outcomes, pa.string())}))
            rows_of_kept = (samples.rows(source) for source in self._of(KEPT))
            if self._exports is not None:
                rows_of_kept = self._kept_rows = list(rows_of_kept)
            kept = Lines(rows_of_kept)
            few = [(source, samples.rows(source)) for source in self._of(FEW)]
        self._kept, self._few = kept, (few, now)

    def page(
        self, accept: str = "", accept_encoding: str = "", now: datetime | None = None
    ) -> Page:
        """Return the response to a scrape, by its headers ``Accept`` and ``Accept-Encoding``."""
        few = self._now(now or datetime.now(UTC))
        return page(self._kept, families(few), accept, accept_encoding)

    def rows(self) -> Iterator[SourceRows]:
        """Yield the samples of a page as they are now; those of many rows only with `Exports`."""
        yield from self._kept_rows
        yield from self._now(datetime.now(UTC))

    def _now(self, now: datetime) -> Iterator[SourceRows]:
        """Yield the samples of few rows; ages grow and exports are counted between refreshes."""
        few, refreshed_at = self._few or ([], now)
        for source, rows in few:
            if source is own.SNAPSHOT_AGE:
                yield _older(rows, (now - refreshed_at).total_seconds())
            elif source is own.EXPORTS and self._exports is not None:
                yield self._exports.with_counts(rows)
            else:
                yield rows

    def _of(self, sources: tuple[Source, ...]) -> Iterator[Source]:
        return (source for source in sources if source.family in self._families)

    def _counted(self, tables: Mapping[str, pa.Table]) -> dict[str, pa.Table]:
        snapshots = tables.get(raw.SNAPSHOTS.name, raw.SNAPSHOTS.arrow_schema().empty_table())
        sent = tables.get(
            alerting.NOTIFICATIONS.name, alerting.NOTIFICATIONS.arrow_schema().empty_table()
        )
        return {
            "totals_problems": self._totals.count_problems(snapshots),
            "totals_notifications": self._totals.count_notifications(sent),
        }


def _older(rows: SourceRows, seconds: float) -> SourceRows:
    """Return the rows with ages that have grown since they were read."""
    values = [
        (metric, [None if age is None else age + seconds for age in ages])
        for metric, ages in rows.values
    ]
    return replace(rows, values=values)


def _extra(facts: Facts) -> dict[str, pa.Table]:
    counted = list(facts.table_rows.items())
    return {
        "table_rows": pa.table(
            {
                "table": pa.array([name for name, _ in counted], pa.string()),
                "rows": pa.array([count for _, count in counted], pa.int64()),
            }
        ),
        "tick": pa.table({"seconds": pa.array([facts.tick_seconds], pa.float64())}),
        "build": pa.table({"version": pa.array([facts.version], pa.string())}),
    }
