"""Real clients on real brokers own the expected queues, with every strategy they can run.

``MACHINE_ROOM`` needs brokers named by their room, and ``CONFIG`` gives what the client's
own code lists: there is nothing to compare. Both are held to the client's classes beside this.
"""

import subprocess
from pathlib import Path

import pytest

from tidemark.lab import jars
from tidemark.rocketmq.allocation import allocate
from tidemark.rocketmq.collector import collect_snapshot
from tidemark.rocketmq.snapshot.target import ClusterTarget

HERE = Path(__file__).parent
STRATEGIES = {"AVG", "AVG_BY_CIRCLE", "CONSISTENT_HASH", "MACHINE_ROOM_NEARBY-AVG"}
TOPIC = "lab_two"


@pytest.mark.cluster
def test_expected_owners_are_the_actual_owners(cluster, tmp_path):
    no_logging = tmp_path / "logback.xml"
    no_logging.write_text("<configuration/>")
    completed = subprocess.run(
        [
            *(jars.find("java"), "-Xmx192m", "-XX:+UseSerialGC", f"-Duser.home={tmp_path}"),
            f"-Drmq.logback.configurationFile={no_logging}",
            *("-cp", f"{jars.fetch(cluster.version)}/*", str(HERE / "Owners.java")),
            *(cluster.namesrv, TOPIC, "1a,2a,3b"),
        ],
        capture_output=True,
        text=True,
        timeout=400,
    )
    assert completed.returncode == 0, completed.stderr
    topics = collect_snapshot(ClusterTarget(name_servers=(cluster.namesrv,))).topics
    queues = [
        (row.broker, number)
        for row in topics
        if row.topic == TOPIC
        for number in range(row.read_queues or 0)
    ]
    assert {broker for broker, _ in queues} == {"broker-a", "broker-b"}
    mapping = {}
    for line in completed.stdout.splitlines():
        strategy, *members = line.split("\t")
        shares = (member.split("=") for member in members)
        mapping[strategy] = {client: owned.split(",") for client, owned in shares}
    assert mapping.keys() == STRATEGIES, completed.stdout
    for strategy, owned in mapping.items():
        rooms = {name: name[-1] for name in (*owned, "broker-a", "broker-b")}
        expected = allocate(
            strategy, TOPIC, queues, owned, rooms=rooms if "NEARBY" in strategy else ()
        )
        assert owned == {
            client: [f"{broker}/{number}" for broker, number in mine] or [""]
            for client, mine in expected.items()
        }, strategy
