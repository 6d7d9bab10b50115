"""The limit of a client's cache that holds back its pulls."""

import pytest
from pyspark.sql import functions as F

from spark.progress.health_reasons import limit_text
from spark.progress.queue_progress import reached_limit
from tests.support.table_rows import frame
from tidemark.lake.tables import raw

pytestmark = pytest.mark.spark

LARGEST = 2**63 - 1
LIMITS = {"most_messages": 1000, "most_mib": 100, "widest_span": 2000}
CACHE = {"cached_messages": 5, "cached_mib": 1, "cached_min_offset": 10, "cached_max_offset": 14}

CASES = {
    "nothing is reached": (CACHE | LIMITS, None),
    "at the limits it still pulls": (
        CACHE | LIMITS | {"cached_messages": 1000, "cached_mib": 100, "cached_max_offset": 2010},
        None,
    ),
    "messages": (CACHE | LIMITS | {"cached_messages": 1001}, "1001 of 1000 messages"),
    "messages taken out in order count": (
        CACHE | LIMITS | {"cached_messages": 1000, "in_order_messages": 1},
        "1001 of 1000 messages",
    ),
    "size": (CACHE | LIMITS | {"cached_mib": 101}, "101 of 100 MiB"),
    "one message is not finished": (
        CACHE | LIMITS | {"cached_max_offset": 2011},
        "a span of 2001 of 2000 offsets",
    ),
    "ordered consumption has no limit of the span": (
        CACHE | LIMITS | {"cached_max_offset": 2011, "widest_span": None},
        None,
    ),
    "no limit is reported": (CACHE | {"cached_messages": 9999}, None),
    "no cache is reported": (LIMITS, None),
    "numbers that no sum can hold": (
        LIMITS
        | {"cached_messages": LARGEST, "in_order_messages": 1}
        | {"cached_min_offset": -LARGEST, "cached_max_offset": LARGEST},
        None,
    ),
}


def test_the_first_limit_that_is_reached(spark):
    rows = [fields | {"topic": name} for name, (fields, _) in CASES.items()]
    result = frame(spark, raw.CLIENT_QUEUES, rows).select("topic", reached_limit().alias("reached"))
    parts = (F.col(f"reached.{name}") for name in ("kind", "amount", "limit"))
    result = result.select("topic", limit_text(*parts)).collect()
    assert {row[0]: row[1] for row in result} == {name: text for name, (_, text) in CASES.items()}
