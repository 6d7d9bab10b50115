"""Expected owners in SQL against the same strategies in Python."""

import pytest
from pyspark.sql import functions as F

from spark.progress.assignments import expected_owners, hash_ring
from tests.support.allocation_cases import random_cases
from tidemark.rocketmq.allocation import SELF_CONTAINED, allocate

pytestmark = pytest.mark.spark


def test_sql_gives_the_owners_of_the_python_strategies(spark):
    """Random cases with names beyond ASCII; Java orders those beyond 16 bits differently."""
    cases = []
    for strategy, name, _, _, queues, clients in random_cases(seed=7, count=6000):
        text = "".join([name, *clients, *(broker for broker, _ in queues)])
        if strategy in SELF_CONTAINED and max(text) < "\U00010000":
            cases.append((strategy, name, sorted(queues), clients))
    assert {strategy for strategy, *_ in cases} == set(SELF_CONTAINED) and len(cases) > 100
    rows = spark.createDataFrame(
        [(number, *case) for number, case in enumerate(cases)],
        "number int, strategy string, topic string, "
        "queues array<struct<broker:string,queue_id:int>>, members array<string>",
    )
    named = {name: F.col(name) for name in ("strategy", "topic", "queues", "members", "ring")}
    collected = (
        rows.withColumn("ring", hash_ring(F.col("strategy"), F.col("members")))
        .select("number", "queues", expected_owners(**named).alias("expected"))
        .collect()
    )
    for number, queues, expected in collected:
        strategy, name, _, clients = cases[number]
        owned = allocate(strategy, name, queues, clients)
        owners = {queue: client for client, mine in owned.items() for queue in mine}
        assert [owners[tuple(queue)] for queue in queues] == expected, cases[number]
