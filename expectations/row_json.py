"""The JSON text of a row, by which quarantined rows are stored, shown and decided on."""

from collections.abc import Sequence

from pyspark.sql import Column
from pyspark.sql import functions as F

JSON_OPTIONS = {"timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX", "ignoreNullFields": "false"}
"""Spark's options for a text without loss: it keeps microseconds, and columns that are NULL."""


def row_json(columns: Sequence[str]) -> Column:
    """Return the named columns of a row as one JSON object.

    Instants are ISO 8601 in the session's time zone.
    """
    return F.to_json(F.struct(*columns), JSON_OPTIONS)
