"""The event log on connections that stay open: other processes see each write."""

import threading
import time

import dagster as dg
import pytest
from dagster._core.events.log import EventLogEntry
from dagster._core.storage.event_log import SqliteEventLogStorage
from sqlalchemy import text

from orchestration.instance.dagster_home import prepare
from tidemark.embedded import dagster_private
from tidemark.embedded.event_log import KEPT, EventLog
from tidemark.settings.home import Home


@pytest.fixture
def log(tmp_path):
    log = EventLog(str(tmp_path))
    yield log
    log.dispose()


def entry_of(number: int, run_id: str = "run") -> EventLogEntry:
    return EventLogEntry(
        error_info=None,
        level=20,
        user_message=f"{number}",
        run_id=run_id,
        timestamp=time.time(),
        job_name="tick",
    )


def texts(log, run_id="run"):
    return [entry.user_message for entry in log.get_logs_for_run(run_id)]


def test_stored_events_are_visible_to_dagster_at_once(log, tmp_path):
    """Also while the writer keeps its connection."""
    for number in range(3):
        log.store_event(entry_of(number))
    assert texts(log) == texts(SqliteEventLogStorage(str(tmp_path))) == ["0", "1", "2"]


def test_migrations_are_read_once_for_all_databases(log, monkeypatch):
    read, reads = dagster_private._read_migrations, []

    def counted(config):
        reads.append(config)
        return read(config)

    monkeypatch.setattr(dagster_private, "_read_migrations", counted)
    monkeypatch.setattr(dagster_private, "_migrations", {})
    for run in ("run-1", "run-2"):
        log.store_event(entry_of(1, run))
    assert len(reads) == 1
    with log.run_connection("run-2") as connection:
        (made_at,) = connection.execute(text("SELECT version_num FROM alembic_version")).one()
    assert made_at == read(reads[0]).get_current_head()


def test_a_table_is_searched_for_until_found(log, monkeypatch):
    searched = []
    monkeypatch.setattr(SqliteEventLogStorage, "has_table", lambda _, name: searched.append(name))
    assert not log.has_table("later")
    monkeypatch.undo()
    assert log.has_table("event_logs") and not log.has_table("later")
    monkeypatch.setattr(SqliteEventLogStorage, "has_table", lambda _, name: searched.append(name))
    assert log.has_table("event_logs")
    assert searched == ["later"]


def test_what_dagsters_own_stores_is_there_too(log, tmp_path):
    log.store_event(entry_of(0))
    SqliteEventLogStorage(str(tmp_path)).store_event(entry_of(1))
    assert texts(log) == ["0", "1"]


def test_databases_of_runs_close_and_open_again(log):
    runs = [f"run-{number}" for number in range(2 * KEPT)]
    for run in (*runs, *runs):
        log.store_event(entry_of(1, run))
        assert len(log._engines) <= KEPT
    assert [texts(log, run) for run in runs] == [["1", "1"]] * len(runs)


def test_events_do_not_wait_for_the_disk(log):
    log.store_event(entry_of(0))
    for opened in (log.run_connection("run"), log.index_connection()):
        with opened as connection:
            assert connection.execute(text("PRAGMA synchronous")).scalar_one() == 1  # NORMAL
            assert connection.execute(text("PRAGMA journal_mode")).scalar_one() == "wal"


def test_several_threads_write_one_after_the_other(log):
    def write():
        for number in range(20):
            log.store_event(entry_of(number))

    threads = [threading.Thread(target=write) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(map(int, texts(log))) == sorted([*range(20)] * 4)


def test_watchers_get_events_of_other_writers(log, tmp_path):
    writer, heard = EventLog(str(tmp_path)), []
    writer.store_event(entry_of(0))
    log.watch("run", None, lambda entry, cursor: heard.append(entry.user_message))
    writer.store_event(entry_of(1))
    until = time.monotonic() + 10
    while heard != ["0", "1"] and time.monotonic() < until:
        time.sleep(0.05)
    assert heard == ["0", "1"]
    writer.dispose()


def test_a_failure_rolls_back_and_keeps_the_connection(log):
    log.store_event(entry_of(0))
    with pytest.raises(ZeroDivisionError), log.run_connection("run") as connection:
        connection.exec_driver_sql("DELETE FROM event_logs")
        raise ZeroDivisionError
    log.store_event(entry_of(1))
    assert texts(log) == ["0", "1"]


def test_everything_can_be_forgotten(log):
    log.store_event(entry_of(0))
    log.wipe()
    log.store_event(entry_of(1))
    assert texts(log) == ["1"]


def test_a_prepared_home_has_it(tmp_path, monkeypatch):
    monkeypatch.setenv("DAGSTER_HOME", "")
    monkeypatch.setenv("TIDEMARK_HOME", "")
    home = Home.of(tmp_path / 'a "home" of {ours}')
    prepare(home)
    with dg.DagsterInstance.get() as instance:
        assert isinstance(instance.event_log_storage, EventLog)
    assert (home.dagster / "history" / "runs" / "index.db").exists()
