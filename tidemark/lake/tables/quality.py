"""``quality.*``: validation results, quarantined rows, and the decisions of people on them."""

from tidemark.lake.schema import BIGINT, BOOLEAN, DOUBLE, STRING, TIMESTAMP, Column, Table
from tidemark.lake.tables import raw

RESULTS = Table(
    name="quality.results",
    comment="One row per expectation and run.",
    columns=(
        Column("observed_at", TIMESTAMP, "when it was validated"),
        Column("table", STRING, "full name of the table"),
        Column("expectation", STRING, "name of the expectation"),
        Column("success", BOOLEAN, "whether it was met; NULL = it applied to no row"),
        Column("unexpected", BIGINT, "rows that violate it"),
        Column("elements", BIGINT, "rows that it was evaluated on"),
        Column("severity", STRING, "block | quarantine | warn"),
        Column("mostly", DOUBLE, "share of the rows that had to meet it, 0..1"),
        Column("window_start", TIMESTAMP, "first instant of the window"),
        Column("window_end", TIMESTAMP, "first instant after the window"),
        Column("run_id", STRING, "Dagster run"),
        Column(
            "judged_until",
            TIMESTAMP,
            "up to which instant rows were validated for the first time; NULL = all of them had "
            "been validated before, so no incident advances",
        ),
        Column(
            "expected",
            STRING,
            "what it demands of the rows, in a line; NULL of one that was met, or that applied to "
            "no row",
        ),
        Column("problem", STRING, "why it could not be validated; NULL = it was"),
        Column("sample", STRING, "a few violating rows as JSON: their key and its columns"),
    ),
    key=("run_id", "table", "expectation", "window_start"),
)

QUARANTINE = Table(
    name="quality.quarantine",
    comment="One row per raw row that violates an expectation; nothing is computed from it.",
    columns=(
        raw.OBSERVED_AT,
        Column("table", STRING, "full name of the table"),
        Column("reason", STRING, "expectations that it violates"),
        Column("row", STRING, "the raw columns as JSON"),
        raw.SNAPSHOT_ID,
    ),
    key=("snapshot_id", "table", "reason", "row"),
)

DECISIONS = Table(
    name="quality.decisions",
    comment="One row per decision of a person on a quarantined row; the last one counts.",
    columns=(
        Column("observed_at", TIMESTAMP, "start of the row's snapshot"),
        Column("decided_at", TIMESTAMP, "when it was decided"),
        *(column for column in QUARANTINE.columns if column is not raw.OBSERVED_AT),
        Column("decision", STRING, "released (a valid row) | dropped (an invalid row) | undone"),
        Column("author", STRING, "who decided"),
        Column("comment", STRING, "why"),
    ),
    key=("decided_at", "table", "snapshot_id", "row"),
    nullable_key=("snapshot_id",),
)

ALL = (RESULTS, QUARANTINE, DECISIONS)
