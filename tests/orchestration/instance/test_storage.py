"""Errors of a process whose Dagster storage is removed while it uses it."""

import shutil

import dagster as dg
import pytest

from orchestration.instance.dagster_home import StorageError, opened_storage, prepare
from tidemark.settings.home import Home


def test_a_removed_storage_is_one_line(tmp_path, monkeypatch):
    monkeypatch.delenv("DAGSTER_HOME", raising=False)
    monkeypatch.setenv("TIDEMARK_HOME", str(tmp_path))
    home = Home.of(tmp_path)
    home.make()
    monkeypatch.setenv("DAGSTER_HOME", str(prepare(home)))
    with pytest.raises(StorageError) as raised, opened_storage() as instance:
        instance.get_runs()
        shutil.rmtree(home.dagster / "history")
        instance.add_run(dg.DagsterRun(job_name="tick"))
        instance.get_runs()
    line = str(raised.value)
    assert line.startswith(f"Dagster's storage in {home.dagster} was removed or damaged")
    assert "start it again" in line and "\n" not in line
