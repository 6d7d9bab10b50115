"""``quality.*``: verdicts on the data, rows that cannot be measurements, who says otherwise."""

from lake.schema import BIGINT, BOOLEAN, DOUBLE, STRING, TIMESTAMP, Column, Table
from lake.tables import raw

RESULTS = Table(
    "quality.results",
    "One row per expectation and run.",
    (
        Column("observed_at", TIMESTAMP, "when it was judged"),
        Column("table", STRING, "full name of the table"),
        Column("expectation", STRING, "name of the expectation"),
        Column("success", BOOLEAN, "whether it held"),
        Column("unexpected", BIGINT, "rows that break it"),
        Column("elements", BIGINT, "rows it was asked of"),
        Column("severity", STRING, "block | quarantine | warn"),
        Column("mostly", DOUBLE, "share of the rows asked that had to keep it, 0..1"),
        Column("window_start", TIMESTAMP, "first instant judged"),
        Column("window_end", TIMESTAMP, "first instant after the window"),
        Column("run_id", STRING, "Dagster run"),
    ),
    key=("run_id", "table", "expectation", "window_start"),
)

QUARANTINE = Table(
    "quality.quarantine",
    "One row per raw row that cannot be a measurement; it is not computed on.",
    (
        raw.OBSERVED_AT,
        Column("table", STRING, "full name of the table"),
        Column("reason", STRING, "expectations it breaks"),
        Column("row", STRING, "the raw columns as JSON"),
        raw.SNAPSHOT_ID,
    ),
    key=("snapshot_id", "table", "reason", "row"),
)

DECISIONS = Table(
    "quality.decisions",
    "One row per decision of a person on a quarantined row; the last one on a row counts.",
    (
        Column("observed_at", TIMESTAMP, "that of the row"),
        Column("decided_at", TIMESTAMP, "when it was decided"),
        *(each for each in QUARANTINE.columns if each is not raw.OBSERVED_AT),
        Column("decision", STRING, "released (a measurement) | dropped (none) | undone"),
        Column("author", STRING, "who decided"),
        Column("comment", STRING, "why"),
    ),
    key=("decided_at", "table", "snapshot_id", "row"),
    nullable_key=("snapshot_id",),
)

ALL = (RESULTS, QUARANTINE, DECISIONS)
