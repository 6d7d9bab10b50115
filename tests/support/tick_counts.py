"""Counts of a tick's queries, jobs and commits: ``python -m tests.support.tick_counts``.

It ticks on made-up snapshots with a Spark of this process, whose own records show the queries.
"""

import json
import sys
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

from pyspark.sql import SparkSession

from orchestration import in_process
from tests.support.synthetic_cluster import SyntheticCluster
from tidemark.lake.catalog import Lake
from tidemark.lake.clocks import HOUR, floor_hour
from tidemark.lake.landing import land
from tidemark.lake.tables import TABLES
from tidemark.settings.environment import Settings

TICKS = 3
"""The second one is of a deep snapshot; the third is of a snapshot like the first."""


def counts(settings: Settings) -> Iterator[dict[str, int]]:
    """Yield the counts of each tick: ``queries`` and ``jobs`` of Spark, ``commits`` of Iceberg."""
    cluster = SyntheticCluster(floor_hour(datetime.now(UTC)) - HOUR, topics=2, groups=2)
    before: Counter[str] = Counter()
    for number in range(TICKS):
        land(settings.home, cluster.snapshot(number))
        in_process.tick(settings, collect=False)
        total = Counter(_of_spark()) + Counter({"commits": _commits(Lake(settings.home))})
        yield dict(total - before)
        before = total


def _of_spark() -> dict[str, int]:
    session = SparkSession.getActiveSession()
    assert session, "a tick leaves its session open"
    # Spark's own records have no public interface.
    java: Any = session._jsparkSession
    queries = java.sharedState().statusStore().executionsCount()
    return {"queries": queries, "jobs": java.sparkContext().statusStore().jobsList(None).size()}


def _commits(lake: Lake) -> int:
    return sum(len(lake.table(name).metadata.snapshots) for name in TABLES)


if __name__ == "__main__":
    for count in counts(Settings.read()):
        sys.stdout.write(json.dumps(count) + "\n")
