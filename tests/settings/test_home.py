"""Small files of the home: whole or as they were."""

import os
import time

import pytest

from orchestration.instance.dagster_home import prepare
from tidemark.settings.home import LEFT_SECONDS, Home, remove_unfinished, unfinished, write_whole


def test_a_file_that_cannot_be_written_leaves_nothing_behind(tmp_path):
    """A full disk collected a file of each process that tried."""
    path = tmp_path / "marks.json"
    write_whole(path, "old")
    unfinished(path).symlink_to("/dev/full")
    with pytest.raises(OSError, match="No space left"):
        write_whole(path, "new")
    assert [path.name for path in tmp_path.iterdir()] == ["marks.json"]
    assert path.read_text() == "old"


def test_what_killed_processes_left_is_removed_and_what_is_written_stays(tmp_path):
    old, young, other = (tmp_path / name for name in (".a.7.part", ".b.8.part", "notes.txt"))
    for path in (old, young, other):
        path.write_text("x")
        os.utime(path, times=(0, time.time() - (LEFT_SECONDS + 60) * (path != young)))
    remove_unfinished(tmp_path, tmp_path / "missing")
    assert sorted(path.name for path in tmp_path.iterdir()) == [".b.8.part", "notes.txt"]


def test_a_run_removes_what_killed_ones_left_of_state(tmp_path, monkeypatch):
    monkeypatch.delenv("DAGSTER_HOME", raising=False)
    monkeypatch.setenv("TIDEMARK_HOME", "")  # put back at the end
    home = Home.of(tmp_path / "home")
    left = unfinished(home.path / "collector" / "orders.json")
    left.parent.mkdir(parents=True)
    left.write_text("{")
    os.utime(left, times=(0, 0))
    prepare(home)
    assert list(left.parent.iterdir()) == []
