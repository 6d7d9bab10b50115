"""``progress.capacity``: reports of members, their capacity, and the members that a peak needs."""

import dagster as dg
import pytest

from orchestration.resources import resources
from spark.progress.capacity import capacity
from tests.support.table_rows import frame, minute, minutes
from tidemark.lake.tables import progress, raw
from tidemark.settings.environment import Settings
from tidemark.settings.owners import Machine, MachineOverride

pytestmark = pytest.mark.spark

NOW = 70


A_DAY = 24 * 60


def member(client_id, threads, ok_tps, rt_ms, failed_tps=0.0, queues=2, orderly=False, batch=None):
    return client_id, threads, ok_tps, rt_ms, failed_tps, queues, orderly, batch


def load(queues, produce_tps, clients=2, readable_lag=600, **other):
    row = {"queues": queues, "produce_tps": produce_tps, "clients": clients}
    return row | {"readable_lag": readable_lag} | other


GROUPS = {
    # group: its members, its expected row
    # Two of 20 threads at 100 ms carry 200 a second each; 450 at the peak take three.
    "plain": ([member("a", 20, 100.0, 100.0), member("b", 20, 50.0, 100.0)], load(4, 100.0)),
    # Clients report every queue as locked. 2 queues of a concurrent one keep 20 threads busy.
    "concurrent": ([member("a", 20, 9.0, 200.0)], load(2, 10.0, clients=1)),
    # 10 queues held make 10 threads of 20: 100 a second.
    "ordered": ([member("a", 20, 10.0, 100.0, queues=10, orderly=True)], load(10, 50.0, clients=1)),
    # Two clients of 20 threads, and 10 queues: 10 threads at work, 100 a second at the most.
    "ordered, few queues": (
        [
            member("a", 20, 10.0, 100.0, queues=5, orderly=True),
            member("b", 20, 10.0, 100.0, queues=5, orderly=True),
        ],
        load(10, 120.0),
    ),
    # 20 threads of 8 messages a call in 200 ms.
    "batches": ([member("a", 20, 9.0, 200.0, batch=8)], load(2, 10.0, clients=1)),
    "batch-waits": ([member("a", 20, 9.0, 200.0)], load(2, 10.0, clients=1)),
    "batch-computes": ([member("a", 20, 9.0, 10.0)], load(2, 10.0, clients=1)),
    "too many": ([member("a", 1, 1.0, 1000.0)], load(3, 4.0, clients=5)),
    "failing": ([member("a", 1, 1.0, 100.0, failed_tps=2.0)], load(1, 1.0, clients=1)),
    "failures not reported": ([member("a", 1, 1.0, 100.0, failed_tps=None)], load(1, 1.0)),
    # 100 calls of 10 ms and 300 of 50 ms.
    "unequal": ([member("a", 8, 100.0, 10.0), member("b", 8, 300.0, 50.0)], load(8, 1.0)),
    "never called": ([member("a", 20, 0.0, 0.0)], load(4, 1.0)),
    "no threads": ([member("a", None, 5.0, 10.0)], load(4, 1.0)),
    # A quarter matches: 100 of 400 a second, 150 of 600 messages.
    "filtered": (
        [member("a", 10, 10.0, 50.0)],
        load(4, 400.0, clients=1, match_ratio=0.25, filtered_lag=150),
    ),
    "drained": ([member("a", 10, 10.0, 50.0)], load(2, 1000.0, clients=1, readable_lag=0)),
    "no history": ([member("a", 10, 10.0, 50.0)], load(2, None, clients=1)),
    # A time of the hour before, from before it was blocked; 29 messages of a quiet group.
    "blocked": ([member("a", 20, 10.0, 0.01)], load(4, 10.0, clients=1, health="BLOCKED")),
    "stopped": ([member("a", 20, 10.0, 5.0)], load(4, 10.0, clients=1, health="STOPPED")),
    # Three of its queues are consumed, and the messages of the fourth expire.
    "losing": ([member("a", 20, 10.0, 5.0)], load(4, 10.0, clients=1, health="LOSING")),
    "idle": ([member("a", 20, 0.0, 0.0257)], load(4, 0.0, clients=1, health="IDLE")),
    "quiet": ([member("a", 20, 29 / 60, 5.0)], load(4, 0.5, clients=1, health="OK")),
    "enough": ([member("a", 20, 15 / 60, 5.0), member("b", 20, 15 / 60, 5.0)], load(4, 0.5)),
    # Calls under a millisecond: at most 1,000 a second of each thread.
    "quick": ([member("a", 20, 100.0, 0.0)], load(4, 100.0, clients=1)),
    # 17.97 of 20 a second: two at 9.97 have one percent to spare, three drain in 1.5 minutes.
    "no headroom": (
        [member("a", 1, 9.97, 100.3), member("b", 1, 9.97, 100.3)],
        load(4, 19.74, readable_lag=1000),
    ),
}


def machine_of_variables(**variables):
    """Return the machine of all groups that the environment configures, as runs read it."""
    with pytest.MonkeyPatch.context() as patched:
        for name, value in variables.items():
            patched.setenv(name, value)
        with dg.build_resources(
            {"client_machine": resources(Settings.read())["client_machine"]}
        ) as built:
            return built.client_machine.machine()


@pytest.fixture(scope="module")
def computed(spark):
    clients, topics, queues, groups = [], [], [], []
    for group, (members, expected_rows) in GROUPS.items():
        pair = {"at": NOW, "consumer_group": group, "topic": "orders"}
        groups.append(pair | expected_rows)
        for client_id, threads, ok_tps, rt_ms, failed_tps, owned, orderly, batch in members:
            mine = pair | {"client_id": client_id}
            clients.append(
                {k: v for k, v in mine.items() if k != "topic"}
                | {
                    "thread_count": threads,
                    "consume_orderly": orderly,
                    "consume_batch_size": batch,
                }
            )
            topics.append(
                mine
                | {
                    "consume_ok_tps": ok_tps,
                    "consume_failed_tps": failed_tps,
                    "consume_rt_ms": rt_ms,
                }
            )
            queues += [mine | {"queue_id": number, "locked": True} for number in range(owned)]
            queues.append(mine | {"queue_id": owned, "locked": True, "dropped": True})
    peaks = [
        {
            "observed_at": minute(60 * (at // 60)),
            "consumer_group": "plain",
            "topic": "orders",
            "peak_tps": tps,
            "peak_at": minute(at),
        }
        for at, tps in ((-8 * A_DAY, 9000.0), (-2 * A_DAY + 30, 450.0), (30, 300.0))
    ]
    groups.append(
        {"at": NOW, "consumer_group": "reported nothing", "topic": "orders"} | load(4, 1.0)
    )
    rows = capacity(
        frame(spark, raw.CLIENTS, clients),
        frame(spark, raw.CLIENT_TOPICS, topics),
        frame(spark, raw.CLIENT_QUEUES, queues),
        frame(spark, progress.GROUPS, groups),
        frame(spark, progress.PEAKS, peaks),
        minutes(60, 120),
        machine_of_variables(TIDEMARK_CLIENT_CORES="4", TIDEMARK_CLIENT_COMPUTE_MS="20"),
        [
            MachineOverride({"consumer_group": ["batch-w*"]}, Machine(8, compute_share=0.25)),
            MachineOverride({"consumer_group": ["batch-*"]}, Machine(cores=2)),
        ],
    ).collect()
    assert len(rows) == len(GROUPS)
    return {row["consumer_group"]: row.asDict(recursive=True) for row in rows}


UNKNOWN = dict.fromkeys(
    (
        *("consume_rt_ms", "capacity_tps_per_client", "capacity_tps", "capacity_limit_tps"),
        *("clients_needed", "queues_needed", "needed_drain_seconds", "best_threads"),
    )
)
"""Columns of capacity that say nothing of a group that was not measured."""

EXPECTED = {
    "plain": {
        "clients": 2,
        "clients_told": 2,
        "threads": 40,
        "threads_per_client": 20,
        "consume_tps": 150,
        "consume_tps_per_client": 75,
        "consume_rt_ms": 100,
        "best_threads": 20,  # 4 cores x (80 + 20) / 20
        "capacity_tps_per_client": 200,
        "capacity_tps": 400,
        "wait_share": 0.8,
        "peak_tps": 450,  # two days before; what is older than 7 days does not count
        "peak_at": minute(-2 * A_DAY + 30).replace(tzinfo=None),
        "clients_needed": 3,
        "queues": 4,
        "capacity_limit_tps": 800,
        "is_ordered": False,
    },
    "concurrent": {"is_ordered": False, "capacity_tps_per_client": 100, "clients_needed": 1},
    "ordered": {
        "is_ordered": True,
        "capacity_tps_per_client": 100,
        "clients_needed": 1,
        "capacity_limit_tps": 100,
    },
    "ordered, few queues": {
        "capacity_tps_per_client": 50,
        "capacity_tps": 100,
        "capacity_limit_tps": 100,
        "clients_needed": 1,  # 15 threads of 20
        "queues_needed": 15,
        "queues_limit": "threads",
    },
    "batches": {
        "batch_size": 8,
        "capacity_tps_per_client": 800,
        "clients_needed": 1,
        "queues_limit": "clients",
    },
    # 8 cores, and three quarters of 200 ms wait.
    "batch-waits": {"wait_share": 0.75, "best_threads": 32, "batch_size": None},
    # Its listener takes less time than it is said to compute: nothing waits.
    "batch-computes": {"wait_share": 0, "best_threads": 2},
    "too many": {"capacity_tps": 3, "clients_needed": 5, "capacity_limit_tps": 3},
    "failing": {"consume_tps": 3},
    "failures not reported": {"consume_tps": None, "capacity_tps_per_client": 10},
    "unequal": {"consume_rt_ms": 40, "capacity_tps_per_client": 480},
    "never called": {
        "threads": 20,
        "consume_tps": 0,
        "consume_rt_ms": None,
        "wait_share": None,
        "best_threads": None,
        "capacity_tps_per_client": None,
        "clients_needed": None,
        "reason": "FEW_MESSAGES",
    },
    "no threads": {
        "threads": None,
        "consume_tps": 5,
        "capacity_tps_per_client": None,
        "consume_rt_ms": 10,
        "reason": "NO_THREADS",
    },
    "filtered": {"capacity_tps_per_client": 200, "peak_tps": 100, "clients_needed": 1},
    "no history": {"peak_tps": None, "clients_needed": None, "capacity_tps": 200, "reason": None},
    "blocked": UNKNOWN | {"reason": "BLOCKED", "measured_messages": 600},
    "stopped": UNKNOWN | {"reason": "STOPPED"},
    "idle": UNKNOWN | {"reason": "FEW_MESSAGES", "measured_messages": 0, "consume_tps": 0},
    "quiet": UNKNOWN | {"reason": "FEW_MESSAGES", "measured_messages": 29},
    "enough": {"reason": None, "measured_messages": 30, "capacity_tps_per_client": 4000},
    "quick": {"reason": None, "consume_rt_ms": 0, "capacity_tps_per_client": 20_000},
    "no headroom": {
        "clients_needed": 3,
        "use_limit": 0.8,
        "needed_drain_seconds": pytest.approx(1000 / (3 * 1000 / 100.3 - 19.74)),
    },
}


@pytest.mark.parametrize("group", EXPECTED)
def test_what_members_carry(computed, group):
    expected = EXPECTED[group]
    assert {name: computed[group][name] for name in expected} == expected


DRAINS = {
    # 600 messages, 200 a second for each member, 100 a second come in
    "plain": [(1, 6.0), (2, 2.0), (3, 600 / 500), (4, 600 / 700)],
    # 10 threads work with one client as with two, and 120 a second come in.
    "ordered, few queues": [(1, None), (2, None), (3, None), (4, None), (10, None)],
    "too many": [(1, None), (3, None)],
    "filtered": [(1, 1.5), (2, 0.5), (4, 150 / 700)],
    "drained": [(1, 0.0), (2, 0.0)],
    "no history": [(1, None), (2, None)],
    "losing": [(1, None), (2, None), (4, None)],
}


@pytest.mark.parametrize("group", DRAINS)
def test_the_time_to_drain_with_so_many_members(computed, group):
    drain_by_clients = [
        (item["clients"], item["drain_seconds"]) for item in computed[group]["drain_by_clients"]
    ]
    assert drain_by_clients == DRAINS[group]


def test_what_each_member_reported(computed):
    first = computed["ordered"]["members"][0]
    assert first == {
        "client_id": "a",
        "threads": 20,
        "queues": 10,
        "consume_tps": 10.0,
        "consume_rt_ms": 100.0,
        "capacity_tps": 100.0,
        "batch_size": None,
    }


def test_a_group_that_consumes_nothing_drains_in_no_known_time(computed):
    for group in ("blocked", "stopped", "idle", "quiet"):
        assert {item["drain_seconds"] for item in computed[group]["drain_by_clients"]} == {None}
        assert [item["capacity_tps"] for item in computed[group]["members"]] == [None]


def test_one_minute_does_not_move_the_numbers_of_a_plan(spark):
    """Calls of 100 ms, with one minute of 20 ms and few messages: 3 members in each snapshot."""
    reports = {50: (10.0, 100.0), 55: (1.0, 20.0), 60: (10.0, 101.0), 65: (10.0, 99.0), 90: (0, 5)}
    mine = {"consumer_group": "g", "client_id": "a"}
    pair = {"consumer_group": "g", "topic": "orders"}
    load_of_group = {"queues": 8, "produce_tps": 20.0, "clients": 2, "readable_lag": 1000}
    collected = capacity(
        frame(spark, raw.CLIENTS, [mine | {"at": at, "thread_count": 1} for at in reports]),
        frame(
            spark,
            raw.CLIENT_TOPICS,
            [
                mine
                | {"at": at, "topic": "orders", "consume_ok_tps": float(tps)}
                | {"consume_failed_tps": 0.0, "consume_rt_ms": float(rt)}
                for at, (tps, rt) in reports.items()
            ],
        ),
        frame(
            spark,
            raw.CLIENT_QUEUES,
            [mine | {"at": at, "topic": "orders", "queue_id": 0} for at in reports],
        ),
        frame(spark, progress.GROUPS, [pair | {"at": at} | load_of_group for at in reports]),
        frame(spark, progress.PEAKS, []),
        minutes(55, 120),
    ).collect()
    rows = {row["observed_at"]: row for row in collected}
    # (600 x 100 + 60 x 20) / 660, and so on; what is older than half an hour does not count.
    times = {55: 61_200 / 660, 60: 121_800 / 1260, 65: 181_200 / 1860, 90: 120_000 / 1200}
    for at, rt_ms in times.items():
        row = rows[minute(at).replace(tzinfo=None)]
        assert row["consume_rt_ms"] == pytest.approx(rt_ms)
        assert row["clients_needed"] == 3
        assert row["needed_drain_seconds"] == pytest.approx(1000 / (3000 / rt_ms - 20))
    drains = [row["needed_drain_seconds"] for row in collected]
    assert max(drains) < 1.3 * min(drains)
