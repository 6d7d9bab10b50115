"""A home with a long history of a made-up cluster, as ticks would have left it, without Spark.

Pages and metrics are measured on it, and the pictures of the documentation show it.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import pairwise

import duckdb
import pyarrow as pa
import pyarrow.compute as pc

from bench import made_up_rows as made
from tidemark.alerting.incidents.incident import incident_id
from tidemark.lake.catalog import Lake
from tidemark.lake.schema import Table
from tidemark.lake.tables import TABLES, alerting, progress, quality, raw

CLUSTER = "shop"
SERVICES = (
    "billing checkout mailer audit search shipping fraud loyalty pricing stock returns reports "
    "invoices crm gateway ledger notify catalog export sync risk archive feed warehouse recommend"
)
PURPOSES = "worker indexer writer sender archiver projector enricher"
ENTITIES = (
    "orders payments refunds shipments customers carts prices stock invoices emails clicks reviews "
    "coupons returns sessions labels quotes vouchers taxes devices"
)
DAY = 1440
"""Minutes."""

HOURS_OF_RAW = 2
ROWS_AT_ONCE = 1_000_000


@dataclass(frozen=True, kw_only=True)
class MadeUp:
    """The size of a cluster of two brokers and of its history.

    Attributes:
        groups: consumer groups.
        topics_per_group: topics that each consumes.
        topics: topics there are.
        queues: of a topic on each broker.
        days: of ``progress.groups``.
        queue_days: of ``progress.queues``, a row per queue and minute; pages of now read a day.
        end: the newest minute.
        every: minutes from one snapshot to the next, before the last hour.
    """

    groups: int
    topics_per_group: int
    topics: int
    queues: int
    days: float
    queue_days: float
    end: datetime
    every: int = 1

    @property
    def group_queues(self) -> int:
        """Rows of ``progress.queues`` in a snapshot."""
        return self.groups * self.topics_per_group * self.queues * 2

    def write(self, lake: Lake) -> None:
        """Write all tables, the newest minute last."""
        for table, text, minutes in self._parts():
            for rows in self._rows(table, text, minutes):
                lake.append(table, rows)
        lake.append(progress.EVENTS, self._events())
        lake.append(quality.RESULTS, self._results())
        for rows in self._rows(progress.SNAPSHOTS, _COMPUTED, int(self.days * DAY)):
            lake.append(progress.SNAPSHOTS, rows)

    def history(self, first: int, last: int) -> Iterator[tuple[Table, pa.Table]]:
        """Yield the rows of snapshots and of groups from `first` to before `last` minutes ago."""
        for table, text in (
            (raw.SNAPSHOTS, _SNAPSHOTS),
            (progress.GROUPS, made.GROUPS),
            (progress.SNAPSHOTS, _COMPUTED),
        ):
            yield table, pa.concat_tables(self._rows(table, text, last - first, first))

    def lag(self, group: int) -> int:
        """Return the lag of a group on its first topic at the end."""
        (rows,) = self._rows(progress.GROUPS, made.GROUPS, 1)
        result = rows.filter(pc.equal(rows["consumer_group"], self.name(group)))
        result = result.filter(pc.equal(result["topic"], self.topic(group)))
        return result["lag"].to_pylist()[0]

    def _parts(self) -> Iterator[tuple[Table, str, int]]:
        yield raw.SNAPSHOTS, _SNAPSHOTS, int(min(self.days, 7) * DAY)
        yield progress.GROUPS, made.GROUPS, int(self.days * DAY)
        yield progress.QUEUES, made.QUEUES, int(self.queue_days * DAY)
        for name, text in made.OF_RAW.items():
            yield TABLES[name], text, HOURS_OF_RAW * 60
        for name, text in made.OF_GROUP.items():
            yield TABLES[name], text, 60

    def _rows(self, table: Table, text: str, minutes: int, until: int = 0) -> Iterator[pa.Table]:
        """Yield the rows of the last minutes, oldest first, in whole hours but for the ends."""
        per_minute = self.group_queues if table is progress.QUEUES else self.groups * 4
        step = max(60, ROWS_AT_ONCE * self.every // per_minute // 60 * 60)
        offset = (self.end.minute + 1) % 60
        bounds = [*range(until + offset, until + minutes, step)]
        bounds = sorted({until, *bounds, until + minutes})
        for first, last in reversed(list(pairwise(bounds))):
            with duckdb.connect() as session:
                session.execute("SET TimeZone = 'UTC'; SET threads = 2")
                for name, view in made.WORLD.items():
                    session.execute(f"CREATE VIEW {name} AS {self._filled(view, first, last)}")
                arrow_table = session.sql(self._filled(text, first, last)).to_arrow_table()
            yield _whole(table, arrow_table)

    def _filled(self, text: str, first: int, last: int) -> str:
        return text.format(
            end=int(self.end.timestamp()) // 60,
            first=first,
            last=last,
            every=self.every,
            cluster=CLUSTER,
            groups=self.groups,
            per_group=self.topics_per_group,
            topics=self.topics,
            queues=self.queues,
            entities=ENTITIES,
            words=len(ENTITIES.split()),
            services=SERVICES,
            services_count=len(SERVICES.split()),
            purposes=PURPOSES,
            purposes_count=len(PURPOSES.split()),
            letters="ab",
        )

    def name(self, group: int) -> str:
        """Return the name of a group."""
        services, purposes = SERVICES.split(), PURPOSES.split()
        name = f"{services[group % len(services)]}-{purposes[group * 3 % len(purposes)]}"
        return name if group < len(services) else f"{name}-{group // len(services)}"

    def topic(self, group: int, step: int = 0) -> str:
        """Return the name of a topic that a group consumes."""
        number, words = (group * 3 + step * 5) % self.topics, ENTITIES.split()
        name = words[number % len(words)]
        return name if number < len(words) else f"{name}-{number // len(words)}"

    def ago(self, minutes: float) -> datetime:
        """Return the instant so many minutes before the end."""
        return self.end - timedelta(minutes=minutes)

    def _events(self) -> list[dict[str, object]]:
        rewound = {"consumer_group": self.name(3), "topic": self.topic(3)}
        numbers = [
            {"kind": "REWOUND", "ago": 255, "from_offset": 4_510_233, "to_offset": 4_180_000}
            | {"messages": 330_233, "likely_cause": "reset by an operator", "queue_id": place}
            | {"broker": "broker-a"}
            | rewound
            for place in range(min(4, self.queues))
        ]
        numbers += [
            {"kind": "REBALANCED", "ago": minutes, "consumer_group": self.name(number)}
            | {"topic": self.topic(number), "queue_id": 1, "broker": "broker-b", "messages": 12}
            for number, minutes in ((0, 42), (1, 172), (4, 25))
        ]
        numbers.append({"kind": "BROKER_DOWN", "ago": 91, "broker": "broker-b"})
        return [
            row(progress.EVENTS, number)
            | {"observed_at": self.ago(number["ago"]), "cluster": CLUSTER}  # pyright: ignore
            | {"previous_at": self.ago(number["ago"] + 1)}  # pyright: ignore
            for number in numbers
        ]

    def _results(self) -> list[dict[str, object]]:
        names = ("not_null", "offsets_not_negative", "min_at_most_max", "unique_key", "lag_adds_up")
        tables = (raw.QUEUE_OFFSETS, raw.CONSUMER_OFFSETS, progress.QUEUES, progress.GROUPS)
        return [
            row(
                quality.RESULTS,
                {"table": table.name, "expectation": name, "success": (place, number) != (2, 4)}
                | {"unexpected": 3 if (place, number) == (2, 4) else 0, "severity": "warn"}
                | {"elements": self.group_queues, "observed_at": self.end, "run_id": "made-up"}
                | {"mostly": 1.0, "window_start": self.ago(1), "window_end": self.end},
            )
            for place, table in enumerate(tables)
            for number, name in enumerate(names)
        ]


def incident(
    made_up: MadeUp, group: int, rule: str, opened_ago: int, **columns: object
) -> dict[str, object]:
    """Return a row of ``alerting.incidents`` about a group on its first topic."""
    name, topic = made_up.name(group), made_up.topic(group)
    subject = f"{CLUSTER}/{name}/{topic}"
    opened, fired = made_up.ago(opened_ago), made_up.ago(opened_ago - 2)
    about = {"cluster": CLUSTER, "consumer_group": name, "topic": topic}
    given: dict[str, object] = {
        "incident_id": incident_id(rule, subject, opened),
        "rule": rule,
        "kind": "stalled",
        "subject": subject,
        "severity": "critical",
        "state": "FIRING",
        "cluster": CLUSTER,
        "opened_at": opened,
        "fired_at": fired,
        "observed_at": made_up.end,
        "last_true_at": made_up.end,
        "observations": opened_ago,
        "streak": 0,
        "reopened": 0,
        "labels": [("team", name.partition("-")[0])],
        "snapshot_ids": [],
        "transitions": [{"transition": "FIRING", "at": fired}],
    }
    of_row: Mapping[str, object] = about | dict(columns.pop("row", {}))  # pyright: ignore
    evidence = {"evidence": json.dumps({"row": of_row, "runbook": columns.pop("runbook", None)})}
    return row(alerting.INCIDENTS, given | evidence | columns)


def notification(of: dict[str, object], channel: str, at: datetime, **columns: object) -> dict:
    """Return a row of ``alerting.notifications`` of the firing of an incident."""
    given = {
        "incident_id": of["incident_id"],
        "transition": "FIRING",
        "channel": channel,
        "attempts": 1,
        "delivered_at": at,
        "transition_at": of["fired_at"],
        "status": "DELIVERED",
    }
    return row(alerting.NOTIFICATIONS, given | columns)


def now() -> datetime:
    """Return the present minute."""
    return datetime.now(UTC).replace(second=0, microsecond=0)


_COMPUTED = "SELECT snapshot_id, observed_at, cluster FROM instants"

_SNAPSHOTS = """
    SELECT snapshot_id, observed_at, cluster, 'remote' AS source,
        observed_at + to_milliseconds(240) AS finished_at, 'COMPLETE' AS status,
        2 AS brokers_expected, 2 AS brokers_answered, 61 AS requests, 184220 AS bytes,
        240 AS duration_ms, ['broker-a', 'broker-b'] AS brokers_read
    FROM instants"""


def row(table: Table, given: Mapping[str, object]) -> dict[str, object]:
    """Return a row with all columns of a table: None where nothing is given."""
    return {name: given.get(name) for name in table.column_names}


def _whole(table: Table, rows: pa.Table) -> pa.Table:
    """Return rows with all columns of a table: NULL where nothing is made up."""
    schema: Sequence[pa.Field] = table.arrow_schema()
    columns = [
        rows[field.name].cast(field.type, safe=False)
        if field.name in rows.column_names
        else pa.nulls(rows.num_rows, field.type)
        for field in schema
    ]
    return pa.table(columns, schema=table.arrow_schema())
