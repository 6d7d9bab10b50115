"""Metadata of a table's materialization besides its rows."""

from types import SimpleNamespace

from assets.progress import _newest_totals
from tests.support.loaded_snapshots import load, name, of_files, snapshot, window
from tidemark.lake.tables import progress
from tidemark.planning.run_plan import plan_run


def group(minutes, lag, delay, cluster="lab", complete=True):
    return {
        "snapshot_id": name(minutes, cluster),
        "observed_at": snapshot(minutes)["observed_at"],
        "cluster": cluster,
        "lag": lag,
        "delay_ms": delay,
        "complete": complete,
    }


def totals(lake):
    return _newest_totals(SimpleNamespace(lake=lake, plan=plan_run(lake, window(0, 60))))


def test_totals_are_of_the_newest_snapshot_per_cluster(lake):
    load(lake, snapshot(1), snapshot(3), snapshot(2, cluster="other"), of_files(4, "stats_log"))
    rows = [group(1, 9, 9), group(3, 5, 70), group(3, None, None, complete=False)]
    lake.append(progress.GROUPS, [*rows, group(2, 1, 80, "other")])
    assert totals(lake) == {"total_lag": 6, "worst_delay_ms": 80, "incomplete_groups": 1}


def test_totals_of_unknowns_are_unknown(lake):
    load(lake, snapshot(1))
    assert totals(lake)["total_lag"] is None
    lake.append(progress.GROUPS, [group(1, None, None)])
    assert totals(lake) == {"total_lag": None, "worst_delay_ms": None, "incomplete_groups": 0}


def test_a_window_without_groups_has_no_totals(lake):
    load(lake, of_files(4, "stats_log"))
    assert totals(lake) == {}


def test_only_rows_of_the_newest_snapshots_are_read(lake, monkeypatch):
    """A recomputed day has millions of them: as Python values they take gigabytes."""
    load(lake, *(snapshot(minutes) for minutes in range(5)))
    lake.append(progress.GROUPS, [group(minutes, 1, 1) for minutes in range(5)])
    read, rows = lake.read, []

    def counted(*arguments, **options):
        counted = read(*arguments, **options)
        rows.append(counted.num_rows)
        return counted

    monkeypatch.setattr(lake, "read", counted)
    assert totals(lake)["total_lag"] == 1
    assert rows[-1] == 1
