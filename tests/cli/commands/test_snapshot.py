"""`tidemark snapshot` on a real cluster: which tables are printed, and that they agree."""

import json

import pytest

from tests.support.homes import run
from tidemark.rocketmq.records import DEEP, SHALLOW
from tidemark.settings.home import Home

pytestmark = pytest.mark.cluster


def printed(cluster, tmp_path, *options):
    command = ["snapshot", "--namesrv", cluster.namesrv, "--format", "json", *options]
    done = run(Home.of(tmp_path / "home"), command)
    assert (done.returncode, done.stderr) == (0, "")
    return json.loads(done.stdout)


def test_what_a_plain_snapshot_prints(cluster, tmp_path):
    assert list(printed(cluster, tmp_path)) == ["snapshot", *SHALLOW]


def test_what_a_deep_snapshot_prints(cluster, tmp_path):
    taken = printed(cluster, tmp_path, "--deep", "--group", "g-idle")
    assert list(taken) == ["snapshot", *SHALLOW, *DEEP]
    assert taken["snapshot"]["status"] == "COMPLETE"
    snapshot_id = taken["snapshot"]["snapshot_id"]
    for table in ("client_queues", "client_topics", "broker_stats"):
        assert {row["snapshot_id"] for row in taken[table]} == {snapshot_id}
    members = {row["client_id"] for row in taken["clients"] if row["consumer_group"] == "g-idle"}
    reporting = [row for row in taken["clients"] if row["subscriptions_source"] == "client"]
    assert members <= {row["client_id"] for row in reporting}


def test_clients_get_no_request_when_disabled(cluster, tmp_path):
    taken = printed(cluster, tmp_path, "--deep", "--no-clients")
    assert taken["client_queues"] == taken["client_topics"] == [] and taken["broker_stats"]
    assert {row["subscriptions_source"] for row in taken["clients"]} == {"group"}
