"""Runs and schedules on connections that stay open: Dagster's own storages see each write."""

import os
import threading

import dagster as dg
import pytest
from dagster._core.scheduler.instigation import InstigatorType, TickData, TickStatus
from dagster._core.storage.runs import SqliteRunStorage
from dagster._core.storage.schedules import SqliteScheduleStorage
from sqlalchemy.exc import OperationalError

from tidemark.embedded import storage
from tidemark.embedded.storage import RunStorage, ScheduleStorage, kept_engine


def run_of(name: str) -> dg.DagsterRun:
    return dg.DagsterRun(job_name="tick", run_id=name, status=dg.DagsterRunStatus.STARTED)


def ids(runs: SqliteRunStorage) -> list[str]:
    return sorted(run.run_id for run in runs.get_runs())


def test_a_run_is_visible_to_dagster_at_once(tmp_path):
    kept, own = (kind.from_local(str(tmp_path)) for kind in (RunStorage, SqliteRunStorage))
    kept.add_run(run_of("a"))
    own.add_run(run_of("b"))
    assert ids(kept) == ids(own) == ["a", "b"]


def test_an_engine_is_made_once_for_all_storages_of_a_folder(tmp_path, monkeypatch):
    first = RunStorage.from_local(str(tmp_path))
    first.add_run(run_of("a"))
    made = []
    monkeypatch.setattr(storage, "create_engine", lambda *_, **__: made.append(1))
    monkeypatch.setattr(SqliteRunStorage, "from_local", lambda *_, **__: made.append(2))
    assert ids(RunStorage.from_local(str(tmp_path))) == ["a"]
    assert made == []


def test_a_replaced_file_is_not_read_any_more(tmp_path):
    kept = RunStorage.from_local(str(tmp_path))
    kept.add_run(run_of("a"))
    for path in tmp_path.iterdir():
        path.unlink()
    with pytest.raises(OperationalError, match="no such table"):
        kept.get_runs()
    again = RunStorage.from_local(str(tmp_path))
    again.add_run(run_of("b"))
    assert ids(again) == ids(kept) == ["b"]


def test_threads_do_not_wait_for_connections_of_each_other(tmp_path):
    kept = RunStorage.from_local(str(tmp_path))
    alone, together = 20, threading.Barrier(20)

    def inside() -> None:
        with kept.connect():
            together.wait(30)

    threads = [threading.Thread(target=inside) for _ in range(alone)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not together.broken


def test_a_forked_process_has_connections_of_its_own(tmp_path):
    kept = RunStorage.from_local(str(tmp_path))
    kept.add_run(run_of("a"))
    before = kept_engine(kept._conn_string)
    pid = os.fork()
    if pid == 0:
        is_other = kept_engine(kept._conn_string) is not before
        os._exit(0 if is_other and ids(kept) == ["a"] else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    assert kept_engine(kept._conn_string) is before


def test_an_evaluation_is_visible_to_dagster_at_once(tmp_path):
    kept, own = (
        kind.from_local(str(tmp_path)) for kind in (ScheduleStorage, SqliteScheduleStorage)
    )
    evaluation = TickData(
        instigator_origin_id="origin",
        instigator_name="notify",
        instigator_type=InstigatorType.SENSOR,
        status=TickStatus.STARTED,
        timestamp=1.0,
        selector_id="selector",
    )
    kept.create_tick(evaluation)
    assert [tick.timestamp for tick in own.get_ticks("origin", "selector")] == [1.0]
    own.purge_ticks("origin", "selector", before=2.0)
    assert kept.get_ticks("origin", "selector") == []


def test_a_table_and_an_index_are_searched_for_until_found(tmp_path, monkeypatch):
    address = ScheduleStorage.from_local(str(tmp_path))._conn_string
    kept, searched = ScheduleStorage(address), []

    def search(_, name: str = "table") -> bool:
        searched.append(name)
        return len(searched) > 2

    monkeypatch.setattr(SqliteScheduleStorage, "has_built_index", search)
    monkeypatch.setattr(SqliteScheduleStorage, "has_instigators_table", search)
    assert [kept.has_built_index("later") for _ in range(4)] == [False, False, True, True]
    assert [kept.has_instigators_table() for _ in range(2)] == [True, True]
    assert searched == ["later", "later", "later", "table"]
