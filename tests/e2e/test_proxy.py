"""gRPC clients behind a Proxy in cluster mode: numbers of ticks against the clients' counts.

The clients send, pop and acknowledge themselves and count it: messages sent and not acknowledged
are the truth. Behind such a Proxy the broker reports nobody online, and offsets move with pops.
"""

import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pytest

from expectations.adapter import validate
from expectations.audit_suites import AUDIT_ONLY
from expectations.declarations import LAG_OF_OFFSETS
from tests.conftest import chosen_version
from tidemark.lab import cluster as lab_cluster
from tidemark.lab.clients import GrpcClients
from tidemark.lab.cluster import LabCluster
from tidemark.lab.layout import free_port_base
from tidemark.lake.bounds import Bound, bound_of
from tidemark.lake.landing import land
from tidemark.lake.query import select
from tidemark.lake.tables import TABLES
from tidemark.rocketmq.collector import collect_snapshot
from tidemark.rocketmq.names import PROXY_TOPIC
from tidemark.rocketmq.records import Snapshot
from tidemark.rocketmq.snapshot.target import ClusterTarget, DeepOptions

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.spark,
    pytest.mark.skipif(chosen_version() < "5", reason="the Proxy came with 5.0"),
]

NAME, UNASKED = "proxied", "proxy-unasked"
"""The cluster with its proxy, and the same cluster collected without naming the proxy."""

SNAPSHOTS = 4
"""Enough for health, which needs three observations."""

TOPIC_OF = {
    "g-slow": "m_slow",
    "g-simple": "m_simple",
    "g-fifo": "m_fifo",
    "g-gone": "m_gone",
    "g-timer": "m_timer",
    "g-static": "m_static",
}
COMPARED = (
    *("raw.broker_metrics", "raw.queue_offsets", "raw.consumer_offsets"),
    "progress.groups",
)
"""The tables of the audit's comparison with the broker's own metrics."""

POPPED_BY_GONE, LEFT_BY_GONE = 50, 50
INVISIBLE_SECONDS = 10
MOST_ACKNOWLEDGED = 2 / 0.5 * 1.2
"""A second, of two threads with half a second a message; a fifth more, as brokers sample late."""

AN_HOUR = "3600"
SAMPLE_SECONDS = 11.0
"""Until brokers have taken the next sample of each counter."""


@dataclass(kw_only=True)
class Seen:
    """One run of the clients.

    Attributes:
        snapshots: those with the proxy, in order.
        unasked: one taken without it.
        stopped: one taken after it was killed.
        unacknowledged: by group and snapshot, the fewest and the most messages sent and not
            acknowledged while it was taken.
        rows: rows of tables, by full name.
        raw: rows of raw tables, as they are read.
    """

    snapshots: list[Snapshot] = field(default_factory=list)
    unasked: Snapshot | None = None
    stopped: Snapshot | None = None
    unacknowledged: dict[str, list[tuple[int, int]]] = field(default_factory=dict)
    rows: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    raw: dict[str, pa.Table] = field(default_factory=dict)

    def groups(self, group: str, cluster: str = NAME) -> list[dict[str, Any]]:
        """Rows of `progress.groups` on the group's topic, in order of time."""
        rows = [
            row
            for row in self.rows["progress.groups"]
            if (row["cluster"], row["consumer_group"]) == (cluster, group)
            and row["topic"] == TOPIC_OF[group]
        ]
        return sorted(rows, key=lambda row: row["observed_at"])

    def compared_with_truth(self, group: str) -> list[tuple[dict[str, Any], tuple[int, int]]]:
        """Rows of `groups`, each with the fewest and most messages not acknowledged."""
        return list(zip(self.groups(group), self.unacknowledged[group], strict=True))

    def alerts(self, rule: str) -> set[str]:
        """Subjects of which a rule was ever true."""
        return {row["subject"] for row in self.rows["alerting.alerts"] if row["rule"] == rule}


def prepare(clients: GrpcClients) -> None:
    """Topics, groups and messages."""
    for topic, kind in (("m_slow", "NORMAL"), ("m_simple", "NORMAL"), ("m_gone", "NORMAL")):
        clients.topic(topic, kind)
    clients.topic("m_fifo", "FIFO")
    clients.topic("m_timer", "DELAY")
    clients.static_topic("m_static")
    for group in TOPIC_OF:
        clients.group(group, orderly=group == "g-fifo")
    time.sleep(2)  # until the name server knows the last of them
    clients.send("m_slow", 400)
    clients.send("m_simple", 400)
    clients.send("m_fifo", 60, "fifo")
    clients.send("m_gone", POPPED_BY_GONE + LEFT_BY_GONE)
    clients.send("m_timer", 20, AN_HOUR)


def consume(clients: GrpcClients) -> None:
    """Each group as its row of the table of findings."""
    clients.push("g-slow", "m_slow", threads=2, milliseconds=500)
    clients.push("g-fifo", "m_fifo", threads=1, milliseconds=500)
    clients.push("g-timer", "m_timer", threads=1, milliseconds=1)
    clients.simple("g-gone", "m_gone")
    assert clients.receive("g-gone", POPPED_BY_GONE, INVISIBLE_SECONDS) == POPPED_BY_GONE
    clients.close("g-gone")
    clients.simple("g-simple", "m_simple")
    assert clients.receive("g-simple", 200) == 200
    clients.acknowledge("g-simple", 1)
    clients.send_remoting("m_static", 100)
    assert clients.read_remoting("m_static", "g-static", 30) >= 30
    # Brokers take samples of a counter from its first event on: what came at once would be no rate.
    clients.acknowledge("g-simple", 59)
    time.sleep(SAMPLE_SECONDS)


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory, warm_home) -> Iterator[Seen]:
    """The groups at work, in snapshots that one tick has computed."""
    port_base = free_port_base(brokers=1, proxy="cluster")
    metrics = {
        "metricsExporterType": "PROM",
        "metricsPromExporterHost": "127.0.0.1",
        "metricsPromExporterPort": str(port_base + 7),
    }
    cluster = LabCluster.up(
        tmp_path_factory.mktemp("proxied"),
        chosen_version(),
        brokers=1,
        port_base=port_base,
        config=metrics,
        proxy="cluster",
    )
    result = Seen()
    try:
        with GrpcClients(cluster) as clients:
            prepare(clients)
            consume(clients)
            observe(cluster, clients, result, warm_home.home)
    finally:
        cluster.down(graceful=False)
    warm_home.tick()
    where = f"cluster IN ('{NAME}', '{UNASKED}')"
    for table in COMPARED:
        result.raw[table] = select(warm_home.lake, TABLES[table], where, limit=10_000)
    result.rows["progress.groups"] = result.raw["progress.groups"].to_pylist()
    where = f"subject LIKE '{NAME}/%' OR subject LIKE '{UNASKED}/%'"
    table = "alerting.alerts"
    result.rows[table] = select(warm_home.lake, TABLES[table], where, limit=10_000).to_pylist()
    yield result


def observe(cluster: LabCluster, clients: GrpcClients, value: Seen, home) -> None:
    """Snapshots until what the gone group had popped came back, and at least `SNAPSHOTS`."""
    target = ClusterTarget(
        name_servers=(cluster.namesrv,), name=NAME, proxies=(cluster.proxy.address,)
    )
    deep = DeepOptions(broker_metrics=True)
    deadline = time.monotonic() + 240
    while len(value.snapshots) < SNAPSHOTS or not came_back(value.snapshots[-1]):
        assert time.monotonic() < deadline, "what g-gone popped did not come back"
        before = {group: clients.counts(group)[1] for group in ("g-slow", "g-fifo")}
        taken = collect_snapshot(
            ClusterTarget(
                name_servers=target.name_servers, name=NAME, proxies=target.proxies, deep=deep
            )
        )
        # A client counts a message when its listener returns: each thread has one whose
        # acknowledgement may be under way.
        for group, sent, threads in (("g-slow", 400, 2), ("g-fifo", 60, 1)):
            least, most = sent - clients.counts(group)[1], sent - before[group] + threads
            value.unacknowledged.setdefault(group, []).append((least, most))
        land(home, taken)
        value.snapshots.append(taken)
        time.sleep(2)
    value.unasked = collect_snapshot(ClusterTarget(name_servers=(cluster.namesrv,), name=UNASKED))
    land(home, value.unasked)
    lab_cluster.kill(cluster, "proxy")
    value.stopped = collect_snapshot(target)


def pop_retry(group: str) -> set[str]:
    """Both names of the group's POP retry topic."""
    return {f"%RETRY%{group}{sign}{TOPIC_OF[group]}" for sign in "_+"}


def came_back(taken: Snapshot) -> bool:
    """Whether all that g-gone popped waits in its POP retry topic."""
    names = pop_retry("g-gone")
    waiting = [row.max_offset or 0 for row in taken.queue_offsets if row.topic in names]
    return sum(waiting) >= POPPED_BY_GONE


def test_every_snapshot_is_complete(seen):
    """Also with a static topic, and deep: no client behind a Proxy responds to a request (307)."""
    for taken in [*seen.snapshots, seen.unasked]:
        assert (taken.status, taken.problems) == ("COMPLETE", [])


def test_popped_messages_of_a_slow_group_are_not_lag_zero(seen):
    """All are popped, so offsets show nothing; hundreds are being worked on."""
    for row, (least, most) in seen.compared_with_truth("g-slow"):
        assert least > 100 and row["lag"] <= most
        assert row["consume_mode"] == "pop" and row["lag_is_lower_bound"] is True
        assert row["inflight"] is None or least - row["lag"] <= row["inflight"] <= most
        # Pops of the same minute are deducted, so 0 is a bound, too.
        assert 0 <= (row["ack_tps"] or 0) <= MOST_ACKNOWLEDGED
    last = seen.groups("g-slow")[-1]
    assert bound_of("ack_tps", last) is Bound.LOWER
    assert last["health"] not in ("IDLE", "STOPPED", "STALLED", "BLOCKED"), last["health_reason"]


def test_a_simple_consumer_is_behind_by_at_least_what_is_ready(seen):
    for row in seen.groups("g-simple"):
        assert (row["lag"], row["lag_is_lower_bound"]) == (200, True)
        assert row["available"] in (None, 200)
        assert row["inflight"] in (None, 140)
        assert row["online"] is True and row["health"] != "STOPPED"


def test_lag_of_an_ordered_group_is_what_it_has_not_acknowledged(seen):
    for row, (least, most) in seen.compared_with_truth("g-fifo"):
        assert 0 < row["lag"] <= most and row["inflight"] in (None, *range(least, most + 1))
        assert row["online"] is True and row["health"] != "STOPPED"


def test_a_group_that_left_has_all_its_messages(seen):
    last = seen.groups("g-gone")[-1]
    assert (last["lag"], last["retry_lag"]) == (LEFT_BY_GONE, POPPED_BY_GONE)
    assert last["online"] is False
    assert f"{NAME}/g-gone/m_gone" in seen.alerts("nobody-online"), "this page is right"


def test_nobody_is_paged_for_groups_that_work(seen):
    working = {f"{NAME}/{group}/{TOPIC_OF[group]}" for group in ("g-slow", "g-simple", "g-fifo")}
    for rule in ("nobody-online", "stopped", "stalled", "blocked"):
        assert not working & seen.alerts(rule), rule


def test_the_proxy_is_listed_with_the_clients_that_it_reports(seen):
    assert seen.unasked.proxies is None
    for taken in seen.snapshots:
        (proxy,) = taken.proxies
        listed = [row.consumer_group for row in taken.clients if row.consumer_group != "g-static"]
        assert {"g-slow", "g-simple", "g-fifo", "g-timer"} <= set(listed)
        assert (proxy.responded, proxy.members) == (True, len(listed))
        assert proxy.groups == len(set(listed))
    assert not seen.alerts("proxy-down")
    (stopped,) = seen.stopped.proxies
    assert (stopped.responded, stopped.members, stopped.groups) == (False, None, None)


def test_online_is_unknown_without_a_proxys_report(seen):
    assert seen.unasked.proxies_answered is None
    for group in ("g-slow", "g-simple", "g-fifo", "g-gone"):
        assert [row["online"] for row in seen.groups(group, UNASKED)] == [None], group
    assert not {it for it in seen.alerts("nobody-online") if it.startswith(UNASKED)}


def test_members_at_the_proxy_are_known_without_a_version(seen):
    members = [row for taken in seen.snapshots for row in taken.clients]
    popping = {row.consumer_group: row for row in members if row.consumer_group != "g-static"}
    assert popping.keys() == {"g-slow", "g-simple", "g-fifo", "g-timer"}
    assert {row.version for row in popping.values()} == {None}
    assert {row["client_version"] for group in popping for row in seen.groups(group)} == {None}
    assert [row["clients"] for row in seen.groups("g-slow")] == [1] * len(seen.snapshots)


def test_clients_behind_a_proxy_are_sent_no_request(seen):
    reported = {row.consumer_group for taken in seen.snapshots for row in taken.client_queues}
    assert not reported & {"g-slow", "g-simple", "g-fifo"}


def test_the_proxys_own_topic_and_group_are_not_users(seen):
    (kind,) = {row.kind for row in seen.snapshots[-1].topics if row.topic == PROXY_TOPIC}
    assert kind == "system"
    shown = {(row["consumer_group"], row["topic"]) for row in seen.rows["progress.groups"]}
    assert PROXY_TOPIC not in {topic for _, topic in shown}
    assert "CID_DefaultHeartBeatSyncerTopic" not in {group for group, _ in shown}


def test_delayed_messages_are_no_lag_before_their_time(seen):
    rows = seen.groups("g-timer")
    assert rows and {row["lag"] for row in rows} <= {0, None}
    of_groups = {f"%RETRY%{group}" for group in TOPIC_OF}.union(*map(pop_retry, TOPIC_OF))
    shown = {row["topic"] for row in seen.rows["progress.groups"]}
    assert shown <= {*TOPIC_OF.values(), *of_groups}, "messages wait in no other topic"


def test_lag_of_a_static_topic_is_unknown(seen):
    rows = seen.groups("g-static")
    assert rows and {row["lag"] for row in rows} == {None}
    assert {row["health"] for row in rows} == {"UNKNOWN"}


def newest_metrics(seen, group: str) -> dict[str, Any]:
    rows = seen.raw["raw.broker_metrics"].to_pylist()
    mine = [row for row in rows if row["consumer_group"] == group]
    return max(mine, key=lambda row: row["observed_at"])


def test_the_brokers_own_metrics_know_what_a_simple_consumer_holds(seen):
    """There they know more than offsets do, though they are no oracle."""
    row = newest_metrics(seen, "g-simple")
    assert (row["lag"], row["inflight"], row["ready"]) == (340, 140, 200)


def test_the_brokers_own_metrics_count_ordered_messages_twice(seen):
    row = newest_metrics(seen, "g-fifo")
    _, most = seen.unacknowledged["g-fifo"][-1]
    assert row["inflight"] + row["ready"] > most


def test_the_audit_compares_the_brokers_own_metrics(seen, spark):
    """On real rows: of POP groups the endpoint may say more than the offsets, never less."""
    frames = {name: spark.createDataFrame(table) for name, table in seen.raw.items()}
    name = "raw.broker_metrics"
    suite = [
        expectation for expectation in AUDIT_ONLY[name] if LAG_OF_OFFSETS in expectation.condition
    ]
    (right,) = validate(frames[name], name, frames, suite)
    assert right.success and right.elements >= len(seen.snapshots) - 1, right
    fewer = frames[name].selectExpr(
        *(column if column != "lag" else "-1L AS lag" for column in frames[name].columns)
    )
    (wrong,) = validate(fewer, name, frames, suite)
    assert not wrong.success and wrong.unexpected >= right.elements
    assert wrong.sample[0]["lag"] == -1 and wrong.sample[0][LAG_OF_OFFSETS]["least"] >= 0
