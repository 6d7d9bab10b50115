"""Clusters that somebody has taken out of the settings file: what was open there is over.

Nothing will ever be observed of them, so no rule would end their incidents. Only what the file once
named, and no longer does, counts: a cluster that was read by hand was never in it, and a file that
is missing or wrong says nothing of any.
"""

import json
import os
from collections.abc import Collection, Mapping
from datetime import datetime, timedelta
from pathlib import Path

from alerting.incidents import OPEN, closed
from alerting.store import changing, of_rows, save
from lake.catalog import Lake, all_of, one_of
from lake.cluster_settings import load_clusters
from lake.clusters import SettingsError, clusters_file
from lake.home import Home, write_whole
from lake.memory import MEMORY
from lake.tables.alerting import INCIDENTS
from lake.tables.progress import SNAPSHOTS
from lake.window import Window

REASON = "the cluster is no longer in the settings file, nobody watches it"

STILL_READ = timedelta(minutes=5)
"""A cluster with a younger snapshot is still read by somebody, whatever the file says."""

FORGOTTEN = MEMORY + timedelta(hours=1)
"""So long is remembered that it was taken out: until nobody misses its snapshots any more."""


def unwatched(
    home: Home, now: datetime, environment: Mapping[str, str] = os.environ
) -> frozenset[str]:
    """The clusters that were taken out of the settings file within a day.

    Args:
        home: where it may lie, and where its names are remembered.
        now: the present.
        environment: may name another file, ``TIDEMARK_CLUSTERS``.
    """
    file = clusters_file(home, environment.get("TIDEMARK_CLUSTERS"))
    try:
        named = {cluster.key for cluster in load_clusters(file)} if file else set()
    except SettingsError:
        return frozenset()
    if not named:
        return frozenset()
    path = home.path / "watched.json"
    before = _remembered(path)
    after: dict[str, str | None] = dict.fromkeys(sorted(named))
    for name, since in before.items():
        if name not in named and now - datetime.fromisoformat(since or now.isoformat()) < FORGOTTEN:
            after[name] = since or now.isoformat()
    if after != before:
        home.path.mkdir(parents=True, exist_ok=True)
        write_whole(path, json.dumps(after, indent=1))
    return frozenset(after.keys() - named)


def close_unwatched(lake: Lake, clusters: Collection[str], now: datetime) -> int:
    """Ends what is open of clusters that were taken out, and tells how many incidents that are.

    Raises:
        Timeout: see `changing`.
    """
    if not clusters:
        return 0
    read = lake.read(SNAPSHOTS, Window(now - STILL_READ, now), columns=("cluster",))
    gone = set(clusters) - set(read["cluster"].to_pylist())
    if not gone:
        return 0
    with changing(lake):
        where = all_of(one_of("cluster", gone), one_of("state", OPEN))
        before = of_rows(lake.read(INCIDENTS, where))
        after = [closed(each, now, REASON) for each in before]
        return save(lake, before, [each for each in after if each])


def _remembered(path: Path) -> dict[str, str | None]:
    """The names that the file had, and since when each has been missing."""
    try:
        return dict(json.loads(path.read_text()))
    except (OSError, ValueError, TypeError):
        return {}
