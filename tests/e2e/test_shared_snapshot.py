"""A snapshot that tasks of the engine share, on a real cluster: the same rows as of one process."""

import pyarrow.parquet as pq
import pytest

from lake.landing import landed
from rocketmq.records import SHALLOW
from tests.support.homes import run

pytestmark = pytest.mark.cluster

KEYS = ("broker", "consumer_group", "topic", "queue_id", "client_id")


@pytest.fixture
def configured(warm_home, cluster):
    """Return a function that configures how many tasks share a snapshot of the cluster."""
    file = warm_home.home.path / "shared.yaml"

    def write(name, tasks):
        file.write_text(
            f"clusters:\n- {{name: {name}, namesrv: {cluster.namesrv}, deep_every: off, "
            f"spark_tasks: {tasks}}}\n"
        )
        return str(file)

    return write


def rows(home, name):
    """Return by table the keys of the rows that the cluster's one snapshot landed."""
    (snapshot,) = [it for it in landed(home) if it.cluster == name]
    found = {}
    for table, path in snapshot.files().items():
        rows = pq.read_table(path).to_pylist()
        found[table] = sorted(str([row[key] for key in KEYS if key in row]) for row in rows)
    return found


def test_tasks_land_what_one_process_lands(warm_home, configured):
    """Groups come and go by themselves; what stood before and after must be there between."""
    for name, tasks in (("before", 1), ("together", 2), ("after", 1)):
        done = run(warm_home.home, ["collect"], TIDEMARK_CLUSTERS=configured(name, tasks))
        assert (done.returncode, done.stderr) == (0, "")
        assert f" {name} COMPLETE 2/2 brokers " in done.stdout
    before, together, after = (
        rows(warm_home.home, name) for name in ("before", "together", "after")
    )
    assert {f"raw.{table}" for table in SHALLOW} <= together.keys() == after.keys()
    still = {table for table in after if before[table] == after[table]}
    assert {"raw.queue_offsets", "raw.topics", "raw.brokers"} <= still
    for table in still:
        assert together[table] == before[table], table


def test_more_tasks_than_spark_has_slots_is_one_line(warm_home, configured):
    done = run(warm_home.home, ["collect"], TIDEMARK_CLUSTERS=configured("crowded", 1000))
    assert done.returncode == 1
    (line,) = done.stderr.splitlines()
    assert "crowded" in line and "slots" in line, line
