"""A large cluster's past made up in SQL: whole hours of raw rows in seconds.

Offsets follow from the queue and the minute alone. One queue in ten is quiet, and one group queue
in twenty stands where it was; the others are read with a lag that never grows.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta

import duckdb
import pyarrow as pa

from tidemark.lake.catalog import Lake
from tidemark.lake.retention import remember_observed_since
from tidemark.lake.schema import Table
from tidemark.lake.tables import raw

CLUSTER = "large"


@dataclass(frozen=True, kw_only=True)
class Past:
    """A cluster of two brokers that is observed every minute.

    Attributes:
        start: instant of the first snapshot.
        topics: on each broker.
        queues: of a topic on each broker.
        groups: each on `topics_per_group` topics, with two members.
        topics_per_group: how many topics a group reads.
    """

    start: datetime
    topics: int = 250
    queues: int = 8
    groups: int = 250
    topics_per_group: int = 4

    @property
    def group_queues(self) -> int:
        """Rows of progress in a snapshot."""
        return self.groups * self.topics_per_group * self.queues * 2

    def rows(self, first: int, last: int) -> Iterator[tuple[Table, pa.Table]]:
        """The raw rows of the minutes from `first` to before `last`, table by table."""
        with duckdb.connect() as session:
            session.execute("SET TimeZone = 'UTC'")
            session.execute("SET threads = 2")
            for name, text in self._world(first, last).items():
                session.execute(f"CREATE VIEW {name} AS {text}")
            for table, text in _ROWS.items():
                arrow_table = session.sql(text).to_arrow_table()
                yield raw_table(table), _filled(raw_table(table), arrow_table)

    def put(self, lake: Lake, first: int, last: int) -> None:
        """Writes these minutes into the raw tables, as loading them would have."""
        for table, rows in self.rows(first, last):
            (lake.upsert if table is raw.SNAPSHOTS else lake.append)(table, rows)
        remember_observed_since(lake, self.instant(first))

    def instant(self, minute: int) -> datetime:
        """When the snapshot of a minute began."""
        return self.start + timedelta(minutes=minute)

    def _world(self, first: int, last: int) -> dict[str, str]:
        start = self.start.isoformat()
        return {
            "instants": f"""
                SELECT minute::BIGINT AS minute, '{CLUSTER}' AS cluster,
                    TIMESTAMPTZ '{start}' + to_minutes(minute) AS observed_at,
                    strftime(observed_at AT TIME ZONE 'UTC', '%Y%m%dT%H%M%S.000Z-')
                        || '{CLUSTER}' AS snapshot_id
                FROM range({first}, {last}) instants(minute)""",
            "brokers": """
                SELECT * FROM (VALUES (0, 'broker-a'), (1, 'broker-b')) brokers(number, broker)""",
            "topics": f"""
                SELECT broker, brokers.number * {self.topics} + topic.number AS number,
                    topic.number AS topic_number, 'topic-' || topic.number AS topic
                FROM brokers, range({self.topics}) topic(number)""",
            "queues": f"""
                SELECT *, topics.number * {self.queues} + queue_id AS queue,
                    CASE WHEN queue % 10 = 0 THEN 0 ELSE 1 + queue % 97 END AS speed
                FROM topics, range({self.queues}) queues(queue_id)""",
            "groups": f"""
                SELECT number, 'group-' || number AS consumer_group
                FROM range({self.groups}) groups(number)""",
            "reads": f"""
                SELECT groups.number, consumer_group,
                    (groups.number + step) % {self.topics} AS topic_number
                FROM groups, range({self.topics_per_group}) steps(step)""",
        }


_WRITTEN = "100000 + queue % 7 + speed * minute"

_ROWS = {
    "brokers": """
        SELECT snapshot_id, observed_at, cluster, broker, 0 AS broker_id,
            '127.0.0.1:' || (10911 + number) AS address, 'V5_3_3' AS version,
            'ASYNC_MASTER' AS role, 0.4 AS disk_ratio, 72 AS retention_hours,
            MAP {'brokerName': broker} AS config
        FROM instants, brokers""",
    "queue_offsets": f"""
        SELECT snapshot_id, observed_at, cluster, broker, topic, queue_id, 0 AS min_offset,
            {_WRITTEN} AS max_offset,
            CASE WHEN speed > 0 THEN observed_at - to_milliseconds(queue % 500 + 1) END
                AS newest_stored_at
        FROM instants, queues""",
    "consumer_offsets": f"""
        SELECT snapshot_id, observed_at, cluster, broker, consumer_group, topic, queue_id,
            {_WRITTEN} AS written,
            CASE WHEN (queue * 31 + reads.number) % 20 = 0 THEN 99990
                ELSE written - (queue * 31 + reads.number * 17) % 50 END AS consumer_offset,
            least(consumer_offset + 10, written) AS pull_offset,
            'consume_stats' AS pull_source, 'broker' AS offset_store
        FROM instants, reads JOIN queues USING (topic_number)""",
    "topics": """
        SELECT snapshot_id, observed_at, cluster, broker, topic, 8 AS read_queues,
            8 AS write_queues, 6 AS perm, 'NORMAL' AS message_type, 'normal' AS kind
        FROM instants, topics""",
    "consumer_groups": """
        SELECT snapshot_id, observed_at, cluster, broker, consumer_group, true AS consume_enable,
            16 AS retry_max_times, 1 AS which_broker_when_slow, false AS consume_orderly,
            false AS system
        FROM instants, brokers, groups""",
    "clients": """
        SELECT snapshot_id, observed_at, cluster, consumer_group,
            '10.0.1.' || member || '@' || consumer_group AS client_id,
            '10.0.1.' || member || ':40000' AS client_address, 'JAVA' AS language,
            'V5_3_3' AS version, 'CONSUME_PASSIVELY' AS consume_type,
            'CLUSTERING' AS message_model, 'CONSUME_FROM_LAST_OFFSET' AS consume_from_where,
            list(struct_pack(topic := 'topic-' || topic_number, expression_type := 'TAG',
                expression := '*', tags := []::VARCHAR[])) AS subscriptions,
            'group' AS subscriptions_source
        FROM instants, reads, range(2) members(member)
        GROUP BY ALL""",
    "snapshots": """
        SELECT snapshot_id, cluster, 'remote' AS source, observed_at,
            observed_at + to_milliseconds(800) AS finished_at, 'COMPLETE' AS status,
            2 AS brokers_expected, 2 AS brokers_answered, 2000 AS requests, 2000000 AS bytes,
            800 AS duration_ms, [] AS problems, 'plain' AS transport,
            ['broker-a', 'broker-b'] AS brokers_read
        FROM instants""",
}
"""The rows of each table; ``raw.snapshots`` last, as in a load."""


def raw_table(short_name: str) -> Table:
    """The declaration of a raw table."""
    (table,) = [table for table in raw.ALL if table.short_name == short_name]
    return table


def _filled(table: Table, rows: pa.Table) -> pa.Table:
    """Rows with all columns of a table: NULL where nothing is made up."""
    columns = [
        rows[field.name].cast(field.type)
        if field.name in rows.column_names
        else pa.nulls(rows.num_rows, field.type)
        for field in table.arrow_schema()
    ]
    return pa.table(columns, schema=table.arrow_schema())
