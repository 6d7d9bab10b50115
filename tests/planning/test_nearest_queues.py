"""Where the queues are read that offsets of clients' files are compared with."""

from tests.support.loaded_snapshots import load, name, of_files, snapshot, window
from tidemark.planning.lacking_parts import NearestQueues
from tidemark.planning.lacking_parts import nearest_queues as yielded
from tidemark.planning.run_plan import plan_run


def nearest(lake, first, end):
    plan = plan_run(lake, window(first, end))
    return list(yielded(plan.known, plan.window))


def test_the_nearest_snapshot_of_the_broker_counts(lake):
    load(lake, snapshot(0), snapshot(4, ["b"]), snapshot(7), snapshot(5, cluster="other"))
    load(lake, of_files(5, "local_offsets", "a", "b"), of_files(5.5, "stats_log"))
    assert nearest(lake, 5, 8) == [
        NearestQueues("local_offsets-5", "a", name(7)),
        NearestQueues("local_offsets-5", "b", name(4)),
    ]
    assert nearest(lake, 5, 6) == [
        NearestQueues("local_offsets-5", "a", name(0)),
        NearestQueues("local_offsets-5", "b", name(4)),
    ]


def test_beyond_ten_minutes_nothing_is_near(lake):
    load(
        lake, snapshot(0), of_files(10, "local_offsets", "a"), of_files(10.1, "local_offsets", "a")
    )
    assert nearest(lake, 10, 11) == [NearestQueues("local_offsets-10", "a", name(0))]


def test_a_store_serves_too(lake):
    load(lake, snapshot(0), of_files(4, "store", "a"), of_files(5, "local_offsets", "a"))
    assert nearest(lake, 5, 6) == [NearestQueues("local_offsets-5", "a", "store-4")]
