"""Settings of a Spark session for windows of different sizes."""

import math

FEW_ROWS, MANY_ROWS = 5_000, 200_000
"""Largest number of rows of a small window, and of one that is not large."""

TASK_ROWS = 50_000
"""Rows that one task computes in about the time in which a plan of a few tasks starts."""

SMALL = {
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.autoBroadcastJoinThreshold": "-1",
    "spark.sql.constraintPropagation.enabled": "false",
}
LARGE = {
    "spark.sql.adaptive.enabled": "true",
    "spark.sql.autoBroadcastJoinThreshold": "10MB",
    "spark.sql.constraintPropagation.enabled": "true",
}

COMPILED = {
    "spark.sql.codegen.wholeStage": "true",
    # Java interprets longer methods for ever; Spark then splits them where it can.
    "spark.sql.codegen.hugeMethodLimit": "8000",
    "spark.sql.codegen.factoryMode": "FALLBACK",
    "spark.sql.subexpressionElimination.enabled": "true",
}
INTERPRETED = {
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.subexpressionElimination.enabled": "false",
}

LEAVES = "spark.sql.leafNodeDefaultParallelism"
"""Setting of the number of parts into which Spark cuts rows from Python."""


def config_for(rows: int, slots: int) -> dict[str, str]:
    """Return the settings of a session that works on about so many rows of offsets.

    Args:
        rows: of the window.
        slots: how many tasks the Spark runs at a time.
    """
    parts = str(partitions(rows, slots))
    return (
        (LARGE if rows > MANY_ROWS else SMALL)
        | (COMPILED if rows > FEW_ROWS else INTERPRETED)
        | {"spark.sql.shuffle.partitions": parts, LEAVES: parts}
    )


def partitions(rows: int, slots: int) -> int:
    """Return the number of parts of a computation on so many rows.

    Few rows are one part on any cluster, because a shuffle costs more than it gains. Many rows are
    at least one part per slot, and more parts with more rows; adaptive planning joins small ones.

    Args:
        rows: about how many rows of offsets.
        slots: how many tasks the Spark runs at a time.
    """
    parts = max(1, math.ceil(rows / TASK_ROWS))
    return max(parts, slots) if rows > MANY_ROWS else min(parts, max(slots, 1))
