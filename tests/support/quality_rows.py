"""Results of expectations and quarantined rows of a board."""

import json
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from tests.support.board_home import CLUSTER, snapshot_id
from tidemark.lake.catalog import Lake
from tidemark.lake.tables import quality, raw
from tidemark.planning.quarantine_decisions import quarantined_rows

RUN = "0f0c1b4e-run"


def add_results(lake: Lake, at: datetime, *rows: Mapping[str, Any]) -> None:
    """Adds results of a tick at an instant."""
    given = {"table": "raw.topics", "severity": "warn", "run_id": RUN, "observed_at": at}
    given |= {"window_start": at, "window_end": at, "elements": 10, "unexpected": 0}
    names = quality.RESULTS.column_names
    lake.append(quality.RESULTS, [{n: (given | dict(row)).get(n) for n in names} for row in rows])


def add_quarantined(lake: Lake, at: datetime, *queues: int, loaded: bool = True) -> list[str]:
    """Adds a quarantined row of each queue, with or without its raw row; returns their ids."""
    names = raw.QUEUE_OFFSETS.column_names
    own = {"snapshot_id": snapshot_id(at), "observed_at": at, "cluster": CLUSTER}
    own |= {"broker": "broker-a", "topic": "orders", "max_offset": -1}
    rows = [{name: (own | {"queue_id": queue}).get(name) for name in names} for queue in queues]
    if loaded:
        lake.append(raw.QUEUE_OFFSETS, rows)
    texts = [json.dumps(row, default=lambda instant: instant.isoformat()) for row in rows]
    about = {"observed_at": at, "table": "raw.queue_offsets", "reason": "max_offset_ge_0"}
    about |= {"snapshot_id": snapshot_id(at)}
    lake.append(quality.QUARANTINE, [about | {"row": text} for text in texts])
    return [row.row_id for row in quarantined_rows(lake) if row.row in texts]
