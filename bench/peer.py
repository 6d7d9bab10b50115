"""`progress.queues` and `progress.groups` by DuckDB alone: a peer for backfills.

``python -m bench.peer HOME --from ISO --to ISO [--check]``. It reads the data files of the raw
tables of a home, computes the columns of both tables that follow from offsets and instants, writes
them as Parquet and prints the seconds on the clock and of processor time. ``--check`` compares each
column with what Tidemark computed. It knows snapshots of brokers without quarantined rows, clients'
files or broadcasting groups, and no health, as `bench.past` makes them.
"""

import argparse
import sys
import tempfile
import time
from datetime import datetime
from pathlib import Path

import duckdb

from tidemark.lake.catalog import Lake
from tidemark.lake.clocks import Window
from tidemark.lake.schema import Table
from tidemark.lake.tables import progress, raw
from tidemark.settings.home import Home

THREADS = 2
LONGEST_GAP_MS = 600_000

QUEUE = "cluster, broker, topic, queue_id"

WRITTEN = f"""
    SELECT *, count(*) FILTER (fell) OVER history AS run
    FROM (
        SELECT *, lag(max_offset) OVER history AS previous_max_offset,
            lag(observed_at) OVER history AS previous_at,
            max_offset < lag(max_offset) OVER history AS fell
        FROM raw_queues
        WINDOW history AS (PARTITION BY {QUEUE} ORDER BY observed_at))
    WINDOW history AS (PARTITION BY {QUEUE} ORDER BY observed_at)"""
"""Each queue with its observation before, and how often it had fallen by then."""

STEPS = f"""
    SELECT {QUEUE}, run, max_offset AS m1, observed_at AS t1, newest_stored_at AS s1,
        previous_max_offset AS last, previous_at AS last_at
    FROM written WHERE max_offset IS DISTINCT FROM previous_max_offset"""

POPS = """
    SELECT DISTINCT snapshot_id, consumer_group FROM raw_clients
    WHERE NOT list_contains(list_transform(subscriptions, lambda each: each.topic),
        '%RETRY%' || consumer_group)"""
"""Groups whose members subscribe as those do that pop messages: offsets do not show what they have
in flight."""

READ = """
    SELECT c.snapshot_id, c.observed_at, c.cluster, c.broker, c.topic, c.queue_id, c.consumer_group,
        w.min_offset, w.max_offset, w.previous_max_offset, w.previous_at, w.run,
        w.newest_stored_at, c.consumer_offset, c.pull_offset, c.pull_source, c.offset_store,
        lag(c.consumer_offset) OVER history AS previous_consumer_offset,
        lag(c.pull_offset) OVER history AS previous_pull_offset,
        lag(c.observed_at) OVER history AS consumer_previous_at,
        w.max_offset - c.consumer_offset AS lag,
        CASE WHEN p.consumer_group IS NULL THEN c.pull_offset - c.consumer_offset END AS inflight,
        w.max_offset - c.pull_offset AS available,
        at_least_zero(w.min_offset - c.consumer_offset) AS lost,
        at_least_zero(lag - lost) AS readable_lag,
        CASE WHEN readable_lag > 0 THEN greatest(c.consumer_offset, w.min_offset) END AS first,
        CASE WHEN available > 0 THEN c.pull_offset END AS next
    FROM raw_consumers c JOIN written w USING (snapshot_id, broker, topic, queue_id)
        LEFT JOIN pops p ON c.snapshot_id = p.snapshot_id AND c.consumer_group = p.consumer_group
    WINDOW history AS (
        PARTITION BY c.cluster, c.broker, c.topic, c.queue_id, c.consumer_group
        ORDER BY c.observed_at)"""


def _dated(offset: str) -> str:
    """Return the rows of ``read`` with store time, source and error of the message at an offset."""
    return f"""
        SELECT r.snapshot_id, r.broker, r.topic, r.queue_id, r.consumer_group,
            CASE WHEN m1 < last THEN 0 ELSE last END AS m0,
            CASE WHEN m0 <= {offset} THEN epoch_us(last_at) END AS t0,
            s1 IS NOT NULL AND (t0 IS NULL OR epoch_us(s1) >= t0) AS reported,
            CASE WHEN reported THEN least(epoch_us(s1), epoch_us(t1)) ELSE epoch_us(t1) END AS e,
            reported AND {offset} = m1 - 1 AS exact,
            make_timestamptz(CASE WHEN exact OR t0 IS NULL THEN e
                ELSE t0 + floor((e - t0) * (({offset} - m0 + 1)::DOUBLE / (m1 - m0)))::BIGINT END
            ) AS stored_at,
            CASE WHEN exact THEN 'exact' WHEN t0 IS NULL THEN 'at_least'
                ELSE 'interpolated' END AS source,
            CASE WHEN exact THEN 0 WHEN t0 IS NOT NULL
                THEN floor((e - t0) / 1000)::BIGINT END AS error_ms
        FROM (SELECT * FROM read WHERE {offset} IS NOT NULL) r
        ASOF JOIN steps s ON r.cluster = s.cluster AND r.broker = s.broker
            AND r.topic = s.topic AND r.queue_id = s.queue_id AND r.run = s.run
            AND r.{offset} < s.m1"""


QUEUES = """
    WITH dated AS (
        SELECT r.*, f.stored_at AS consumer_at_, f.source AS source_, f.error_ms AS error_,
            n.stored_at AS pull_at_, n.source AS next_source, b.retention_hours, b.disk_ratio
        FROM read r
        LEFT JOIN of_first f USING (snapshot_id, broker, topic, queue_id, consumer_group)
        LEFT JOIN of_next n USING (snapshot_id, broker, topic, queue_id, consumer_group)
        LEFT JOIN raw_brokers b USING (snapshot_id, broker))
    SELECT * EXCLUDE (consumer_at_, source_, error_, pull_at_, next_source, retention_hours,
            disk_ratio, first, next, run, previous_at, consumer_previous_at, newest_stored_at,
            previous_pull_offset),
        CASE WHEN consumer_offset IS NULL THEN max_offset - min_offset ELSE readable_lag END
            AS lag_upper,
        CASE WHEN NOT (source_ = 'at_least' AND consumer_at_ >= observed_at) THEN consumer_at_ END
            AS consumer_at,
        CASE WHEN NOT (next_source = 'at_least' AND pull_at_ >= observed_at) THEN pull_at_ END
            AS pull_at,
        CASE WHEN newest_stored_at IS NOT NULL THEN least(newest_stored_at, observed_at) END
            AS newest_at,
        millis(observed_at) - millis(consumer_at) AS age,
        readable_lag = 0 AND lag >= 0 AS consumed,
        CASE WHEN consumed THEN 0 WHEN age > 0 OR (age = 0 AND source_ = 'interpolated') THEN age
            END AS delay_ms,
        CASE WHEN available = 0 THEN 0
            ELSE at_least_zero(millis(observed_at) - millis(pull_at)) END AS ready_delay_ms,
        CASE WHEN lag = 0 THEN 0 WHEN lag > 0
            THEN at_least_zero(millis(newest_at) - millis(consumer_at)) END AS lag_span_ms,
        CASE WHEN inflight = 0 THEN 0 WHEN inflight > 0 THEN at_least_zero(millis(
            CASE WHEN available = 0 THEN newest_at ELSE pull_at END) - millis(consumer_at)) END
            AS inflight_span_ms,
        CASE WHEN available = 0 THEN 0 WHEN available > 0
            THEN at_least_zero(millis(newest_at) - millis(pull_at)) END AS available_span_ms,
        CASE WHEN delay_ms IS NOT NULL THEN CASE WHEN consumed THEN 'exact' ELSE source_ END END
            AS delay_source,
        CASE WHEN delay_ms IS NOT NULL THEN CASE WHEN consumed THEN 0 ELSE error_ END END
            AS delay_error_ms,
        {produce} AS produce_tps, {consume} AS consume_tps, {pull} AS pull_tps,
        CASE WHEN readable_lag = 0 THEN 0.0
            WHEN consume_tps > produce_tps
                AND consume_tps - produce_tps >= greatest(consume_tps, produce_tps) * 1e-6
            THEN readable_lag / (consume_tps - produce_tps) END AS drain_seconds,
        CASE WHEN disk_ratio >= 0.85 AND readable_lag > 0 THEN 0.0
            ELSE at_least_zero(retention_hours * 3600 - age / 1000) END AS loss_in_seconds,
        CASE WHEN max_offset < previous_max_offset THEN 'RECREATED'
            WHEN consumer_offset > max_offset THEN 'AHEAD_OF_BROKER' WHEN lost > 0 THEN 'LOST'
            WHEN consumer_offset IS NULL THEN 'NEVER_COMMITTED'
            WHEN consumer_offset < previous_consumer_offset THEN 'REWOUND' ELSE 'OK' END
            AS condition
    FROM dated"""


def _rate(offset: str, previous_at: str) -> str:
    """Return messages a second since the observation before; NULL over a long gap or a fall."""
    span = f"(millis(observed_at) - millis({previous_at}))"
    step = f"({offset} - previous_{offset})"
    usable = f"{span} > 0 AND {span} <= {LONGEST_GAP_MS} AND {step} >= 0"
    return f"CASE WHEN {usable} THEN {step} / ({span} / 1000) END"


SUMS = ("lag", "inflight", "available", "lost", "readable_lag", "lag_upper")
LARGEST = ("delay_ms", "ready_delay_ms", "lag_span_ms", "inflight_span_ms", "available_span_ms")
RATES = ("produce_tps", "consume_tps", "pull_tps")

GROUPS = f"""
    SELECT snapshot_id, observed_at, cluster, consumer_group, topic,
        {", ".join(f"sum(at_least_zero(queues.{name}))::BIGINT AS {name}" for name in SUMS)},
        {", ".join(f"max(queues.{name}) AS {name}" for name in LARGEST)},
        {", ".join(f"sum(queues.{name}) AS {name}" for name in RATES)},
        count(*)::INT AS queues, min(queues.loss_in_seconds) AS loss_in_seconds,
        max(at_least_zero(queues.lag)) AS max_queue_lag,
        arg_min(broker, (-at_least_zero(queues.lag), broker, queue_id)) AS worst_broker,
        arg_min(queue_id, (-at_least_zero(queues.lag), broker, queue_id)) AS worst_queue_id
    FROM queues GROUP BY ALL"""

KEYS = {
    progress.QUEUES: ("snapshot_id", "broker", "topic", "queue_id", "consumer_group"),
    progress.GROUPS: ("snapshot_id", "consumer_group", "topic"),
}


def main() -> None:
    """Compute both tables, and compare them where `check` is set."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("home", type=Path)
    parser.add_argument("--from", dest="start", type=datetime.fromisoformat, required=True)
    parser.add_argument("--to", dest="end", type=datetime.fromisoformat, required=True)
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    lake = Lake(Home.of(options.home))
    window = Window(options.start, options.end).whole_hours()
    with tempfile.TemporaryDirectory() as folder, duckdb.connect() as session:
        session.execute(f"SET threads = {THREADS}; SET TimeZone = 'UTC'")
        session.execute(f"SET temp_directory = '{folder}'")
        started, spent = time.perf_counter(), time.process_time()
        rows = compute(session, lake, window, Path(folder))
        wall, cpu = time.perf_counter() - started, time.process_time() - spent
        sys.stdout.write(
            f"{rows:,} rows: {wall:.1f} s, {1e6 * wall / rows:.1f} µs a row; "
            f"{cpu:.1f} s of CPU, {1e6 * cpu / rows:.1f} µs a row\n"
        )
        if options.check:
            for table in KEYS:
                differing = differences(session, lake, table, window)
                sys.stdout.write(f"{table.name}: {differing or 'no column differs'}\n")


def compute(session: duckdb.DuckDBPyConnection, lake: Lake, window: Window, folder: Path) -> int:
    """Compute both tables of a window, write them as Parquet and return the rows of queues."""
    # DuckDB's own epoch_ms rounds.
    session.execute("CREATE MACRO millis(instant) AS epoch_us(instant) // 1000")
    session.execute("CREATE MACRO at_least_zero(x) AS CASE WHEN x < 0 THEN 0 ELSE x END")
    for name, table in (
        ("raw_queues", raw.QUEUE_OFFSETS),
        ("raw_consumers", raw.CONSUMER_OFFSETS),
        ("raw_brokers", raw.BROKERS),
        ("raw_clients", raw.CLIENTS),
    ):
        session.execute(f"CREATE VIEW {name} AS SELECT * FROM {_files(lake, table, window)}")
    rates = {
        "produce": _rate("max_offset", "previous_at"),
        "consume": _rate("consumer_offset", "consumer_previous_at"),
        "pull": _rate("pull_offset", "consumer_previous_at"),
    }
    for name, text in (
        ("written", WRITTEN),
        ("steps", STEPS),
        ("pops", POPS),
        ("read", READ),
        ("of_first", _dated("first")),
        ("of_next", _dated("next")),
        ("queues", QUEUES.format(**rates)),
        ("groups", GROUPS),
    ):
        session.execute(f"CREATE TABLE {name} AS {text}")
    for name in ("queues", "groups"):
        session.execute(f"COPY {name} TO '{folder}/{name}.parquet' (COMPRESSION zstd)")
    row = session.execute("SELECT count(*) FROM queues").fetchone()
    assert row
    return row[0]


def differences(
    session: duckdb.DuckDBPyConnection, lake: Lake, table: Table, window: Window
) -> dict[str, int]:
    """Return in how many rows each column differs from what Tidemark computed, if in any."""
    mine = table.short_name
    columns = [row[0] for row in session.execute(f"DESCRIBE {mine}").fetchall()]
    compared = [name for name in columns if name in table.column_names]
    theirs = f"(SELECT * FROM {_files(lake, table, window)})"

    def differs(name: str) -> str:
        pair = f"m.{name}, t.{name}"
        if name.endswith(("_tps", "_seconds")):
            close = f"abs(m.{name} - t.{name}) <= 1e-9 * greatest(1, abs(t.{name}))"
            return f"count(*) FILTER (NOT coalesce({close}, m.{name} IS NULL AND t.{name} IS NULL))"
        return f"count(*) FILTER ({pair.replace(', ', ' IS DISTINCT FROM ')})"

    result = session.execute(
        f"SELECT {', '.join(map(differs, compared))}, count(*) FILTER (m.snapshot_id IS NULL OR "
        f"t.snapshot_id IS NULL) FROM {mine} m FULL JOIN {theirs} t "
        f"USING ({', '.join(KEYS[table])})"
    ).fetchone()
    assert result
    named = zip([*compared, "missing rows"], result, strict=True)
    return {name: count for name, count in named if count}


def _files(lake: Lake, table: Table, window: Window) -> str:
    with lake.scanned(table, window) as scan:
        paths = [task.file.file_path.removeprefix("file://") for task in scan.plan_files()]
    names = ", ".join(f"'{path}'" for path in paths)
    between = f"observed_at >= '{window.start.isoformat()}' AND observed_at < "
    return f"read_parquet([{names}]) WHERE {between}'{window.end.isoformat()}'"


if __name__ == "__main__":
    main()
