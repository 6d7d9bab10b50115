"""Producers that are connected to the brokers of a topic, as deep snapshots last listed them.

Brokers know the group of a producer and not the topics that it writes: any of these may write the
topic, and a producer of it is connected to its brokers.
"""

from typing import Any

import pyarrow.compute as pc

from tidemark.board.newest import GROUP_REACH
from tidemark.board.views import Shown, View
from tidemark.lake.clocks import MICROSECOND, Window
from tidemark.lake.schema import STRING, STRINGS, TIMESTAMP, Column, Table
from tidemark.lake.tables import raw

PRODUCERS = Table(
    name="board.producers",
    comment="One row per producer that is connected to a broker of the topic; null where no deep "
    "snapshot of the hour before lists any. Brokers do not know which topics it writes.",
    columns=(
        Column("producer_group", STRING, "its group"),
        Column("client_id", STRING, "the client"),
        Column("client_address", STRING, "host:port that a broker sees"),
        Column("language", STRING, "client language"),
        Column("version", STRING, "client version"),
        Column("connected_to", STRINGS, "brokers of the topic that it is connected to"),
        Column("last_seen_at", TIMESTAMP, "its last heartbeat, by a broker's clock"),
        Column("observed_at", TIMESTAMP, "start of the deep snapshot"),
    ),
    key=("producer_group", "client_id"),
)
"""The columns of the rows below; they are in no table."""


def producer_rows(view: View, rows: Shown, cluster: str, topic: str) -> list[dict[str, Any]] | None:
    """Return the producers that are connected to brokers of a topic; None where that is unknown.

    Args:
        view: the tables as the person sees them.
        rows: what is shown.
        cluster: a cluster among these.
        topic: the topic.

    Raises:
        DamagedError: a file of a table is missing or damaged.
    """
    configured = rows.of(raw.TOPICS, cluster)
    configured = configured.filter(pc.equal(configured["topic"], topic))
    brokers = set(configured["broker"].to_pylist())
    window = Window(rows.at[cluster] - GROUP_REACH, rows.at[cluster] + MICROSECOND)
    columns = ("broker", raw.BROKERS.instant, "producers")
    listed = view.rows_between(raw.BROKERS, window, {"cluster": cluster}, columns)
    newest: dict[str, dict[str, Any]] = {}
    for row in listed.filter(pc.is_valid(listed["producers"])).to_pylist():
        before = newest.get(row["broker"])
        if row["broker"] in brokers and (not before or before["observed_at"] < row["observed_at"]):
            newest[row["broker"]] = row
    if not newest:
        return None
    merged: dict[tuple[str, str], dict[str, Any]] = {}
    for broker, row in sorted(newest.items()):
        for producer in row["producers"]:
            key = producer["producer_group"], producer["client_id"]
            known = merged.setdefault(
                key, {**producer, "connected_to": [], "observed_at": row["observed_at"]}
            )
            known["connected_to"].append(broker)
    return [merged[key] for key in sorted(merged)]
