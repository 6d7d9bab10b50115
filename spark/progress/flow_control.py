"""Flow control: limits of a client's cache that hold back its pulls.

A client does not pull a queue while its cache of it is above a limit
(`DefaultMQPushConsumerImpl.pullMessage`, the same in `DefaultLitePullConsumerImpl`). Its slow
listener is then the cause: neither a faster broker nor more pulls would help.
"""

from pyspark.sql import Column
from pyspark.sql import functions as F

from tidemark.model.health import CacheLimit

LIMIT_TYPE = "struct<kind:string,amount:bigint,limit:bigint>"


def reached_limit() -> Column:
    """Return the first limit that a row of ``raw.client_queues`` is above, with the amount.

    In the order in which clients check them: a struct of ``kind`` (a `CacheLimit`), ``amount`` and
    ``limit``, for example 1004 of 1000 messages. NULL where none is reached or nothing is known.
    The numbers are a client's own, so a sum that no ``bigint`` can hold is unknown.
    """
    messages = F.try_add(
        "cached_messages", F.coalesce("in_order_messages", F.lit(0).cast("bigint"))
    )
    span = F.try_subtract("cached_max_offset", "cached_min_offset")
    limits = (
        (CacheLimit.CACHED_MESSAGES, messages, "most_messages"),
        (CacheLimit.CACHED_MIB, F.col("cached_mib"), "most_mib"),
        (CacheLimit.CACHED_SPAN, span, "widest_span"),
    )
    return F.coalesce(
        *(
            F.when(
                amount > F.col(limit),
                F.struct(
                    F.lit(kind).alias("kind"),
                    amount.alias("amount"),
                    F.col(limit).cast("bigint").alias("limit"),
                ),
            )
            for kind, amount, limit in limits
        )
    )
