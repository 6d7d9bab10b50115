"""Expected owners of queues by the client's allocation strategy, in Spark SQL.

`rocketmq.allocation` has the same strategies in Python. They are repeated in SQL so that no Python
process has to run beside Spark's executors; a test checks that both give the same owners.
Strategies that follow users' configuration (machine rooms, a list of queues) give no expectation.
``CONSISTENT_HASH`` is computed with the default number of virtual nodes, because members do not
report theirs.

Members and brokers are in Spark's order of texts, which equals Java's except for characters beyond
16 bits.
"""

from collections.abc import Callable

from pyspark.sql import Column
from pyspark.sql import functions as F

from rocketmq.allocation import AVG, AVG_BY_CIRCLE, CONSISTENT_HASH, VIRTUAL_NODES


def expected_owners() -> Column:
    """Return the owner of each of ``queues`` as an array; NULL for other strategies.

    Needs a row with ``strategy``, ``topic``, ``queues`` (array of broker and queue id) and
    ``members``, both in order, and ``ring``.
    """
    strategy = F.col("strategy")
    return (
        F.when(strategy == AVG, _by_place(_average))
        .when(strategy == AVG_BY_CIRCLE, _by_place(lambda place: place % F.size("members")))
        .when(strategy == CONSISTENT_HASH, _by_hash())
    )


def ring() -> Column:
    """Return the hash ring of ``members`` for ``CONSISTENT_HASH``: an array of places, sorted.

    It is a column of its own, because `expected_owners` would compute it for every queue.
    """

    def places(member: Column, index: Column) -> Column:
        return F.transform(
            F.sequence(F.lit(0), F.lit(VIRTUAL_NODES - 1)),
            lambda place: F.struct(
                _hash(F.concat(member, F.lit("-"), place.cast("string"))).alias("at"),
                # The later of two places with the same hash comes first and counts.
                (-index * VIRTUAL_NODES - place).alias("order"),
                member.alias("member"),
            ),
        )

    every = F.array_sort(F.flatten(F.transform("members", places)))
    return F.when(F.col("strategy") == CONSISTENT_HASH, every)


def _by_place(index: Callable[[Column], Column]) -> Column:
    return F.transform("queues", lambda queue, place: F.get("members", index(place).cast("int")))


def _average(place: Column) -> Column:
    queues, members = F.size("queues"), F.size("members")
    least, longer = F.floor(queues / members), queues % members
    ahead = longer * (least + 1)
    return F.when(place < ahead, F.floor(place / (least + 1))).otherwise(
        longer + F.floor((place - ahead) / F.greatest(least, F.lit(1)))
    )


def _by_hash() -> Column:
    def owner(queue: Column) -> Column:
        at = _hash(
            F.format_string(
                "MessageQueue [topic=%s, brokerName=%s, queueId=%d]",
                F.col("topic"),
                queue["broker"],
                queue["queue_id"],
            )
        )
        ahead = F.filter("ring", lambda place: place["at"] >= at)
        return F.coalesce(F.get(ahead, F.lit(0)), F.get("ring", F.lit(0)))["member"]

    return F.transform("queues", owner)


def _hash(text: Column) -> Column:
    """Return the first 4 bytes of the MD5, unsigned."""
    return F.conv(F.substring(F.md5(text), 1, 8), 16, 10).cast("bigint")
