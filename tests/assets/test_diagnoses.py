"""Diagnoses of incidents that have just begun to fire, on brokers that run and on none."""

import socket
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from assets.diagnoses import JUST_FIRED, diagnose_incidents
from assets.resources import CollectorResource
from tests.support.notified_incidents import incident
from tidemark.alerting.incidents.incident import Incident
from tidemark.alerting.incidents.repository import find, save
from tidemark.lake.catalog import Lake
from tidemark.live.diagnosis import Diagnosis, read_diagnosis
from tidemark.model.consumption import StackOutcome
from tidemark.settings.clusters import Cluster
from tidemark.settings.environment import Settings

import msgspec  # isort: skip

FIRED = datetime(2026, 11, 19, 12, tzinfo=UTC)


@pytest.fixture
def nobody() -> Cluster:
    """A cluster whose name server does not run."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    return Cluster(namesrv=(f"127.0.0.1:{port}",), name="lab")


def fired(lake: Lake, kind: str = "blocked", **changed: object) -> str:
    """Save an incident of a kind that fired at noon; return its id."""
    made = msgspec.structs.replace(
        incident(("FIRING", 0), **{"group": "g-stuck"}), kind=kind, **changed
    )
    save(lake, [], [made])
    return made.incident_id


def kept(lake: Lake, incident_id: str) -> Diagnosis | None:
    (row,) = find(lake, [incident_id])
    return read_diagnosis(msgspec.json.decode(row.diagnosis)) if row.diagnosis else None


def stored(lake: Lake, incident_id: str) -> Incident:
    (row,) = find(lake, [incident_id])
    return row


def test_brokers_that_do_not_respond_are_stated_and_not_tried_again(
    lake: Lake, nobody: Cluster
) -> None:
    incident_id = fired(lake)
    lines: list[str] = []
    now = FIRED + timedelta(minutes=1)
    assert diagnose_incidents(lake, [nobody], now, lines.append) == 1
    diagnosis = kept(lake, incident_id)
    assert diagnosis and (diagnosis.clients, diagnosis.messages) == (None, None)
    assert "refused" in diagnosis.problems[0] and "refused" in lines[0]
    assert diagnose_incidents(lake, [nobody], now, lines.append) == 0
    assert stored(lake, incident_id).state == "FIRING"


@pytest.mark.parametrize("kind", ["lag", "stopped", "losing"])
def test_other_kinds_are_not_diagnosed(lake: Lake, nobody: Cluster, kind: str) -> None:
    incident_id = fired(lake, kind)
    assert diagnose_incidents(lake, [nobody], FIRED) == 0
    assert kept(lake, incident_id) is None


def test_an_incident_of_long_ago_is_not_diagnosed(lake: Lake, nobody: Cluster) -> None:
    fired(lake)
    later = FIRED + JUST_FIRED + timedelta(seconds=1)
    assert diagnose_incidents(lake, [nobody], later) == 0


def test_an_incident_of_another_cluster_is_not_diagnosed(lake: Lake, nobody: Cluster) -> None:
    fired(lake, cluster="elsewhere")
    assert diagnose_incidents(lake, [nobody], FIRED) == 0


def test_a_setting_ends_it(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    assert Settings.read().incident_stacks
    monkeypatch.setenv("TIDEMARK_INCIDENT_STACKS", "off")
    off = Settings.read().incident_stacks
    now = datetime.now(UTC)
    incident_id = fired(lake, fired_at=now, opened_at=now, observed_at=now, last_true_at=now)
    resource = CollectorResource(namesrv="127.0.0.1:1", cluster="lab", incident_stacks=off)
    assert resource.diagnose(lake) == 0 and kept(lake, incident_id) is None
    on = CollectorResource(namesrv="127.0.0.1:1", cluster="lab")
    assert on.diagnose(lake) == 1 and kept(lake, incident_id) is not None


def test_settings_that_cannot_be_read_cost_no_incident(lake: Lake, tmp_path: Path) -> None:
    file = tmp_path / "clusters.yaml"
    file.write_text("clusters: 7\n")
    lines: list[str] = []
    assert CollectorResource(clusters=str(file)).diagnose(lake, lines.append) == 0
    assert "clusters" in lines[0]


@pytest.mark.cluster
def test_an_incident_keeps_the_line_that_blocks(lake: Lake, cluster) -> None:
    row = {"cluster": "lab", "consumer_group": "g-stuck", "topic": "lab_orders"}
    incident_id = fired(lake, evidence=msgspec.json.encode({"row": row}).decode())
    at = Cluster(namesrv=(cluster.namesrv,), name="lab")
    assert diagnose_incidents(lake, [at], FIRED) == 1
    diagnosis = kept(lake, incident_id)
    assert diagnosis and diagnosis.clients
    (member,) = diagnosis.clients
    assert member.outcome in (StackOutcome.REPORTED, StackOutcome.WOULD_COMMIT)
