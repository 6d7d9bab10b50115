"""Search for the tables of a window in which no key repeats: nearly always all of them."""

from collections.abc import Mapping
from functools import reduce

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from lake.tables import TABLES


def tables_with_unique_keys(frames: Mapping[str, DataFrame]) -> frozenset[str]:
    """Return names of the tables in which no two rows have the same key, in one Spark query.

    It compares hashes, which is several times cheaper than to number the copies of each key
    (`expectations.annotations.annotate`). Equal keys have equal hashes, so no copy is missed. Two
    keys with the same hash only cost the numbering that was to be saved.

    Args:
        frames: rows by full table name.
    """
    names = list(frames)
    keys = [
        frames[name].select(F.lit(number).alias("table"), F.xxhash64(*TABLES[name].key).alias("at"))
        for number, name in enumerate(names)
    ]
    if not keys:
        return frozenset()
    repeated = (
        reduce(DataFrame.unionByName, keys)
        .groupBy("table", "at")
        .agg(F.count(F.lit(1)).alias("rows"))
        .where("rows > 1")
        .select("table")
        .distinct()
    )
    return frozenset(names) - {names[number] for (number,) in repeated.collect()}
