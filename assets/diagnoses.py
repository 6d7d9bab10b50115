"""Diagnoses that incidents keep: what members of a group did when its incident began to fire.

They are made once for each incident of the kinds `DIAGNOSED`, shortly after it first fired. Nothing
here ever fails a tick: what could not be requested is a problem of the diagnosis, in words.
"""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime, timedelta

from msgspec.structs import replace as replaced

from tidemark.alerting.incidents.incident import Incident
from tidemark.alerting.incidents.repository import (
    current_incidents,
    find,
    incidents_lease,
    save,
)
from tidemark.collection.memory import Memory
from tidemark.host.failures import one_line
from tidemark.host.state import State
from tidemark.lake.catalog import Lake
from tidemark.live.diagnosis import Diagnosis, Wish, diagnose, to_json
from tidemark.model.snapshots import SnapshotStatus
from tidemark.rocketmq.collector import collect_snapshot
from tidemark.settings.clusters import Cluster

DIAGNOSED = ("blocked", "stalled")
"""Kinds of rules whose incidents are diagnosed: members are online and do not finish messages."""

MOST = 4
"""Incidents that are diagnosed after one tick, at the same time."""

JUST_FIRED = timedelta(minutes=10)
"""Later the members may do something else than what made the rule true."""


def diagnose_incidents(
    lake: Lake,
    clusters: Sequence[Cluster],
    now: datetime,
    report: Callable[[str], None] = lambda _: None,
) -> int:
    """Keep a diagnosis with incidents that have just begun to fire; return how many got one.

    Args:
        lake: the tables, with the memory of the clusters.
        clusters: the configured clusters; incidents of others stay without a diagnosis.
        now: the present instant.
        report: receives a line for each incident that cannot be diagnosed.

    Raises:
        LeaseError: see `incidents_lease`.
    """
    wanted = [
        (incident, cluster)
        for incident in current_incidents(lake, now).incidents
        if _is_due(incident, now) and (cluster := _named(clusters, lake.shared.state, incident))
    ]
    if not wanted:
        return 0
    with ThreadPoolExecutor(MOST, "diagnose") as pool:
        state = lake.shared.state
        running = {
            incident.incident_id: pool.submit(_diagnosis, state, incident, cluster, report)
            for incident, cluster in wanted[:MOST]
        }
    texts = {incident_id: to_json(it.result()) for incident_id, it in running.items()}
    with incidents_lease(lake):
        before = find(lake, texts)
        after = [replaced(it, diagnosis=texts[it.incident_id]) for it in before]
        return save(lake, before, after)


def _is_due(incident: Incident, now: datetime) -> bool:
    fired = incident.fired_at
    return (
        incident.kind in DIAGNOSED
        and incident.is_firing
        and incident.diagnosis is None
        and bool(incident.row.get("consumer_group"))
        and fired is not None
        and now - fired <= JUST_FIRED
    )


def _named(clusters: Sequence[Cluster], state: State, incident: Incident) -> Cluster | None:
    """Return the configured cluster of an incident; None where it is configured elsewhere."""
    for cluster in clusters:
        if incident.cluster in (cluster.key, Memory.of(state, cluster.key).cluster):
            return cluster
    return None


def _diagnosis(
    state: State, incident: Incident, cluster: Cluster, report: Callable[[str], None]
) -> Diagnosis:
    now = datetime.now(UTC)
    wish = Wish(
        consumer_group=incident.row["consumer_group"],
        topic=incident.row.get("topic"),
        client_reports=cluster.client_reports,
        message_lookup=cluster.looks_up_messages(),
    )
    try:
        memory = Memory.of(state, cluster.key)
        target = cluster.target(memory.remembered(now), kin=memory.kin(now, cluster.others))
        snapshot = collect_snapshot(replace(target, counters=False))
        if snapshot.status != SnapshotStatus.FAILED:
            return diagnose(target, snapshot, wish)
        reason = snapshot.problems[0].line if snapshot.problems else "nothing responded"
    except Exception as error:
        # A mistake of ours, or of the settings, must not cost the tick its incidents.
        reason = one_line(error)
    report(f"incident {incident.incident_id}: its group cannot be diagnosed: {reason}")
    return Diagnosis(
        cluster=incident.cluster or cluster.key,
        consumer_group=wish.consumer_group,
        topic=wish.topic,
        diagnosed_at=now,
        clients=None,
        clients_left_out=0,
        messages=None,
        queues_left_out=0,
        problems=(reason,),
    )
