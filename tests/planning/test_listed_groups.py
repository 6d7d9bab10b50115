"""Snapshots that list all groups of their cluster, whatever their problems are."""

import pytest

from tests.support.table_rows import arrow, minutes, snapshot_id
from tidemark.lake.catalog import Lake
from tidemark.lake.tables import raw
from tidemark.planning.history import loaded_snapshots
from tidemark.planning.lacking_parts import listing_all_groups

MASTERS = {"broker-a": "10.0.0.1:10911", "broker-b": "10.0.0.2:10911"}
SLAVE = "10.0.0.3:10911"
NAME_SERVER = "10.0.0.9:9876"


def problem(endpoint: str, operation: str, code: int | None = None) -> dict[str, object]:
    return {"endpoint": endpoint, "operation": operation, "code": code, "message": "no"}


def lists_all(lake: Lake, status: str, problems=(), read=tuple(MASTERS), source="remote") -> bool:
    """Whether a snapshot of two masters and a slave lists all groups."""
    header = {"at": 0, "status": status, "source": source, "brokers_read": list(read)}
    rows = [
        {"at": 0, "broker": broker, "broker_id": 0, "address": address}
        for broker, address in MASTERS.items()
    ]
    rows.append({"at": 0, "broker": "broker-a", "broker_id": 1, "address": SLAVE})
    lake.append(raw.SNAPSHOTS, arrow(raw.SNAPSHOTS, [header | {"problems": list(problems)}]))
    lake.append(raw.BROKERS, arrow(raw.BROKERS, rows))
    snapshots = loaded_snapshots(lake, minutes(0, 1))
    return listing_all_groups(lake, snapshots) == {snapshot_id(0)}


def test_a_complete_snapshot_does(lake: Lake) -> None:
    assert lists_all(lake, "COMPLETE")


def test_files_of_one_broker_do_not(lake: Lake) -> None:
    assert not lists_all(lake, "COMPLETE", source="store")


@pytest.mark.parametrize(
    "at, operation",
    [
        (MASTERS["broker-a"], "GET_CONSUMER_CONNECTION_LIST billing"),
        (MASTERS["broker-a"], "GET_CONSUMER_CONNECTION_LIST"),
        (SLAVE, "GET_BROKER_CONFIG"),
        (NAME_SERVER, "GET_BROKER_CLUSTER_INFO"),
    ],
)
def test_requests_that_name_no_group_may_fail(lake: Lake, at: str, operation: str) -> None:
    assert lists_all(lake, "PARTIAL", [problem(at, operation)])


@pytest.mark.parametrize("operation", ["GET_ALL_SUBSCRIPTIONGROUP_CONFIG", "GET_BROKER_CONFIG"])
def test_a_list_may_be_among_what_a_master_denies(lake: Lake, operation: str) -> None:
    """A problem names the first of several denied requests."""
    assert not lists_all(lake, "PARTIAL", [problem(MASTERS["broker-a"], operation, 16)])


def test_a_master_that_is_down_hides_groups(lake: Lake) -> None:
    unreachable = problem(NAME_SERVER, "GET_BROKER_CLUSTER_INFO")
    assert not lists_all(lake, "PARTIAL", [unreachable], read=["broker-a"])


def test_a_failed_snapshot_lists_none(lake: Lake) -> None:
    failed = problem(NAME_SERVER, "GET_BROKER_CLUSTER_INFO")
    assert not lists_all(lake, "FAILED", [failed], read=[])


def test_a_snapshot_of_no_broker_lists_none(lake: Lake) -> None:
    header = {"at": 0, "status": "PARTIAL", "source": "remote", "brokers_read": []}
    lake.append(raw.SNAPSHOTS, arrow(raw.SNAPSHOTS, [header]))
    assert listing_all_groups(lake, loaded_snapshots(lake, minutes(0, 1))) == set()
