"""One query by Spark, DuckDB and Polars over the same Parquet files.

How fast is every group on every topic written and read at each minute, how far is it behind and how
late? From plain observations that takes each queue's observation before; rows that hold it already
(as ``progress.queues`` does) only have to be added up. Both forms are run.

A process of its own computes for one engine: ``python -m bench.questions ENGINE FORM FOLDER`` reads
a line and writes seconds and totals, again and again.
"""

import json
import os
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

THREADS = 2

QUEUE = ("cluster", "broker", "topic", "queue_id", "consumer_group")
PAIR = ("observed_at", "cluster", "consumer_group", "topic")

OBSERVED = f"""
    SELECT *,
        lag(observed_at) OVER before AS previous_at,
        lag(max_offset) OVER before AS previous_max_offset,
        lag(consumer_offset) OVER before AS previous_consumer_offset
    FROM rows WINDOW before AS (PARTITION BY {", ".join(QUEUE)} ORDER BY observed_at)"""
"""Rows with the observation before, from rows without."""

KEPT = "SELECT * FROM rows"
"""The same where rows hold it."""

FORMS = {"observed": OBSERVED, "kept": KEPT}

QUERY = f"""
    SELECT {", ".join(PAIR)},
        sum(max_offset - consumer_offset) AS lag,
        sum(CASE WHEN span > 0 AND span <= 600000 AND max_offset >= previous_max_offset
            THEN (max_offset - previous_max_offset) * 1000 / span END) AS produce_tps,
        sum(CASE WHEN span > 0 AND span <= 600000 AND consumer_offset >= previous_consumer_offset
            THEN (consumer_offset - previous_consumer_offset) * 1000 / span END) AS consume_tps,
        max(CASE WHEN consumer_offset = max_offset THEN 0
            WHEN consumer_offset >= previous_max_offset
            THEN span - floor(span * (consumer_offset - previous_max_offset + 1)
                / (max_offset - previous_max_offset))
            ELSE span END) AS delay_ms
    FROM (SELECT *, unix_millis(observed_at) - unix_millis(previous_at) AS span FROM steps)
    GROUP BY {", ".join(PAIR)}"""
"""A row per minute and pair; ``delay_ms`` of the part of the lag of the last step."""

TOTALS = ("count(*)", "sum(lag)", "sum(produce_tps)", "sum(consume_tps)", "sum(delay_ms)")
"""Totals that must be equal whichever engine computes them."""

Totals = Sequence[float]


def spark(form: str, folder: Path) -> Callable[[], Totals]:
    """Spark with `THREADS`; the result is made in full, the totals are taken of it."""
    from pyspark.sql import Observation, SparkSession
    from pyspark.sql import functions as F

    from spark.session.configuration import LARGE

    builder = SparkSession.Builder().master(f"local[{THREADS}]")
    settings = LARGE | {
        "spark.sql.session.timeZone": "UTC",
        "spark.driver.memory": "4g",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.log.level": "ERROR",
    }
    for name, value in settings.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()

    def run() -> Totals:
        session.read.parquet(str(folder)).createOrReplaceTempView("rows")
        session.sql(FORMS[form]).createOrReplaceTempView("steps")
        # A sum over the result would let the optimizer leave out what it does not need: all of it
        # is made, and counted on its way to nowhere.
        total = Observation()
        made = session.sql(QUERY).observe(total, *map(F.expr, TOTALS))
        made.write.format("noop").mode("overwrite").save()
        return list(total.get.values())

    return run


def duckdb(form: str, folder: Path) -> Callable[[], Totals]:
    """DuckDB with `THREADS`."""
    import duckdb

    session = duckdb.connect()
    session.execute(f"SET threads = {THREADS}")
    session.execute("SET TimeZone = 'UTC'")
    session.execute("CREATE MACRO unix_millis(instant) AS epoch_ms(instant)")
    session.execute(f"CREATE VIEW rows AS SELECT * FROM '{folder}/*.parquet'")
    session.execute(f"CREATE VIEW steps AS {FORMS[form]}")

    def run() -> Totals:
        session.execute(f"CREATE OR REPLACE TABLE result AS {QUERY}")
        row = session.execute(f"SELECT {', '.join(TOTALS)} FROM result").fetchone()
        assert row
        return row

    return run


def polars(form: str, folder: Path) -> Callable[[], Totals]:
    """Polars with `THREADS`, in expressions: its SQL has no window over a whole row."""
    os.environ["POLARS_MAX_THREADS"] = str(THREADS)
    import polars

    col = polars.col
    span = (col("observed_at") - col("previous_at")).dt.total_milliseconds()
    near = (span > 0) & (span <= 600_000)

    def rate(offset: str) -> polars.Expr:
        step = col(offset) - col(f"previous_{offset}")
        return polars.when(near & (step >= 0)).then(step * 1000 / span).sum()

    lag = col("max_offset") - col("consumer_offset")
    grown = col("max_offset") - col("previous_max_offset")
    position = col("consumer_offset") - col("previous_max_offset") + 1
    delay = (
        polars.when(lag == 0)
        .then(0)
        .when(position > 0)
        .then(span - (span * position / grown).floor())
        .otherwise(span)
    )
    before = {
        "previous_at": col("observed_at"),
        "previous_max_offset": col("max_offset"),
        "previous_consumer_offset": col("consumer_offset"),
    }

    def run() -> Totals:
        rows = polars.scan_parquet(f"{folder}/*.parquet")
        if form == "observed":
            rows = rows.sort("observed_at").with_columns(
                **{name: expr.shift(1).over(*QUEUE) for name, expr in before.items()}
            )
        made = (
            rows.group_by(*PAIR)
            .agg(
                lag=lag.sum(),
                produce_tps=rate("max_offset"),
                consume_tps=rate("consumer_offset"),
                delay_ms=delay.max(),
            )
            .collect()
        )
        totals = [polars.len(), *(col(name).sum() for name in made.columns[len(PAIR) :])]
        return made.select(*(expr.alias(str(at)) for at, expr in enumerate(totals))).row(0)

    return run


ENGINES = {"spark": spark, "duckdb": duckdb, "polars": polars}


def main() -> None:
    """Answers once for every line read."""
    engine, form, folder = sys.argv[1:]
    run = ENGINES[engine](form, Path(folder))
    for _ in sys.stdin:
        started = time.perf_counter()
        totals = run()
        seconds = time.perf_counter() - started
        sys.stdout.write(json.dumps({"seconds": seconds, "totals": [*map(float, totals)]}) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
