"""``quality.*``: the verdicts on the data, and the rows that cannot be measurements."""

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

ALL = (RESULTS, QUARANTINE)
