"""Incidents about removed clusters, expectations and objectives, which no rule would resolve.

A removed cluster is never observed again. A cluster counts as removed when the settings file named
it before and no longer does. Clusters that were only read by hand never count, nor does any cluster
while the file is missing or wrong.

An expectation that is no longer validated has no further result. An expectation without a result
may also wait for rows or for a run, so only the declarations show that it was removed.

A group without an objective has no burn rate, which is unknown and never untrue.
"""

import json
from collections.abc import Collection, Iterable, Sequence
from datetime import datetime, timedelta

from tidemark.alerting.incidents.incident import OPEN, Evaluation, Incident
from tidemark.alerting.incidents.repository import find, from_rows, incidents_lease, save_closed
from tidemark.host.state import State
from tidemark.lake.catalog import Lake
from tidemark.lake.clocks import Window
from tidemark.lake.schema import all_of, one_of
from tidemark.lake.tables.alerting import INCIDENTS
from tidemark.lake.tables.progress import SNAPSHOTS
from tidemark.settings.clusters import clusters_file
from tidemark.settings.clusters_file import load_clusters
from tidemark.settings.errors import SettingsError
from tidemark.settings.fields import fits
from tidemark.settings.objectives import Objective
from tidemark.settings.sections import MEMORY

_NAME = "watched.json"

CLUSTER_REMOVED = "the cluster is no longer in the settings file and is not monitored"

EXPECTATION_REMOVED = "the expectation is no longer declared and is not validated"

OBJECTIVE_REMOVED = "no objective is declared for the group any more"

Named = tuple[str, str]
"""Full name of a table and name of one of its expectations."""

COLLECTED_WITHIN = timedelta(minutes=5)
"""A cluster with a snapshot this recent is still collected, whatever the file contains."""

REMEMBERED_FOR = MEMORY + timedelta(hours=1)
"""Time for which a removal is remembered: until no rule expects the cluster's snapshots."""


def removed_clusters(lake: Lake, now: datetime, clusters: str = "") -> frozenset[str]:
    """Return the clusters that were removed from the settings file within `REMEMBERED_FOR`.

    Args:
        lake: whose home may hold the file, and whose state remembers the names that it had.
        now: the present.
        clusters: the settings file, where it is not the one in the home.
    """
    file = clusters_file(lake.home, clusters)
    try:
        named = {cluster.key for cluster in load_clusters(file)} if file else set()
    except SettingsError:
        return frozenset()
    if not named:
        return frozenset()
    before = _remembered(lake.shared.state)
    after: dict[str, str | None] = dict.fromkeys(sorted(named))
    for name, since in before.items():
        if (
            name not in named
            and now - datetime.fromisoformat(since or now.isoformat()) < REMEMBERED_FOR
        ):
            after[name] = since or now.isoformat()
    if after != before:
        lake.shared.state.write(_NAME, json.dumps(after, indent=1))
    return frozenset(after.keys() - named)


def close_removed(lake: Lake, clusters: Collection[str], now: datetime) -> int:
    """Close the open incidents of removed clusters.

    Returns:
        How many incidents changed.

    Raises:
        LeaseError: see `incidents_lease`.
    """
    if not clusters:
        return 0
    read = lake.read(SNAPSHOTS, Window(now - COLLECTED_WITHIN, now), columns=("cluster",))
    removed = set(clusters) - set(read["cluster"].to_pylist())
    if not removed:
        return 0
    with incidents_lease(lake):
        where = all_of(one_of("cluster", removed), one_of("state", OPEN))
        return save_closed(lake, from_rows(lake.read(INCIDENTS, where)), now, CLUSTER_REMOVED)


def _remembered(state: State) -> dict[str, str | None]:
    """Return the names that the file had, and since when each has been missing."""
    try:
        return dict(json.loads(state.read(_NAME) or "{}"))
    except (OSError, ValueError, TypeError):
        return {}


def without_result(
    incidents: Iterable[Incident], evaluation: Evaluation
) -> dict[Named, list[Incident]]:
    """Return the open incidents about expectations of which an evaluation holds no result."""
    known = {(alert.rule, alert.subject) for alert in evaluation.alerts} | evaluation.untrue
    without: dict[Named, list[Incident]] = {}
    for incident in incidents:
        if (
            incident.kind == "quality"
            and incident.is_open
            and (incident.rule, incident.subject) not in known
        ):
            named = incident.row["table"], incident.row["expectation"]
            without.setdefault(named, []).append(incident)
    return without


def without_objective(
    incidents: Iterable[Incident], objectives: Sequence[Objective]
) -> list[Incident]:
    """Return the open incidents about burn rates of groups that no objective matches."""
    return [
        incident
        for incident in incidents
        if incident.kind == "burn_rate"
        and incident.is_open
        and not any(fits(objective.match, incident.row) for objective in objectives)
    ]


def close_undeclared(
    lake: Lake, incidents: Collection[Incident], now: datetime, reason: str
) -> int:
    """Close incidents about something that is no longer declared.

    Args:
        lake: the tables.
        incidents: of `without_result` or `without_objective`.
        now: the present.
        reason: why they are closed, in a few words.

    Returns:
        How many incidents changed.

    Raises:
        LeaseError: see `incidents_lease`.
    """
    if not incidents:
        return 0
    with incidents_lease(lake):
        read = find(lake, [incident.incident_id for incident in incidents])
        return save_closed(lake, [incident for incident in read if incident.is_open], now, reason)
