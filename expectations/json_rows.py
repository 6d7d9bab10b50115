"""A row as text, in which nothing of it is lost."""

from collections.abc import Sequence

from pyspark.sql import Column
from pyspark.sql import functions as F

JSON_OPTIONS = {"timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX", "ignoreNullFields": "false"}
"""Nothing of a row may be lost in its JSON: not microseconds, and not that a column was NULL."""


def row_json(columns: Sequence[str]) -> Column:
    """The named columns of a row as one JSON object, instants as ISO 8601 in the session's zone."""
    return F.to_json(F.struct(*columns), JSON_OPTIONS)
