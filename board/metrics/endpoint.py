"""`Metrics`: what the server refreshes when a table changed, and asks at each scrape."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime

import pyarrow as pa

from board.metrics import exporter_brokers, exporter_groups, exporter_topics, native, own
from board.metrics.declaration import Source
from board.metrics.exposition import Lines, Page, page
from board.metrics.samples import Samples, SourceRows, families
from board.metrics.totals import Totals
from lake.tables import alerting, raw
from settings.metrics import MetricsSettings

KEPT = (*native.SOURCES, *exporter_groups.SOURCES, *exporter_topics.SOURCES, *own.SOURCES)
"""Sources of many rows, which change only when a table does; gauges only."""

FEW = (*exporter_brokers.SOURCES, *own.OF_ITSELF)
"""Sources of few rows, read at each scrape."""

SOURCES = (*KEPT, *FEW)


@dataclass(frozen=True)
class Facts:
    """What the server knows besides rows.

    Attributes:
        version: the version of Tidemark.
        table_rows: rows of each table by its name.
        tick_seconds: from the start of the newest snapshot to the commit of its numbers.
    """

    version: str = ""
    table_rows: Mapping[str, int] = field(default_factory=dict)
    tick_seconds: float | None = None


class Metrics:
    """The metrics of one server; a scrape never waits for a refresh."""

    def __init__(self, settings: MetricsSettings) -> None:
        """Nothing is known before the first refresh; families that are off stay off."""
        self._families = settings.families
        self._totals = Totals()
        self._kept = Lines()
        self._few: tuple[Mapping[str, pa.Table], Mapping[str, pa.Table]] | None = None

    def refresh(self, tables: Mapping[str, pa.Table], facts: Facts) -> None:
        """Take over the newest rows.

        Args:
            tables: the newest rows by the name of their table, see `board.metrics.samples`.
            facts: what the server knows besides.
        """
        extra = _extra(facts) | self._counted(tables)
        with Samples(tables) as samples:
            kept = Lines(samples.rows(source) for source in self._of(KEPT))
        small = {name: rows for name, rows in tables.items() if name in _SMALL}
        self._kept, self._few = kept, (small, extra)

    def page(
        self, accept: str = "", accept_encoding: str = "", now: datetime | None = None
    ) -> Page:
        """Return the answer to a scrape, by its headers ``Accept`` and ``Accept-Encoding``."""
        rows = self._few_rows(now or datetime.now(UTC))
        return page(self._kept, families(rows), accept, accept_encoding)

    def _few_rows(self, now: datetime) -> list[SourceRows]:
        if self._few is None:
            return []
        tables, extra = self._few
        with Samples(tables) as samples:
            samples.set_clock(now)
            for name, rows in extra.items():
                samples.add(name, rows)
            return [samples.rows(source) for source in self._of(FEW)]

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


_SMALL = ("progress.snapshots", "raw.snapshots", "raw.brokers")
"""Tables that `FEW` reads."""


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
