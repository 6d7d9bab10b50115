"""Small files of the home: whole or as they were."""

import os

import pytest

from settings.home import write_whole


def test_a_file_that_cannot_be_written_leaves_nothing_behind(tmp_path):
    """A full disk collected a file of each process that tried."""
    path = tmp_path / "marks.json"
    write_whole(path, "old")
    path.with_suffix(f".{os.getpid()}").symlink_to("/dev/full")
    with pytest.raises(OSError, match="No space left"):
        write_whole(path, "new")
    assert [each.name for each in tmp_path.iterdir()] == ["marks.json"]
    assert path.read_text() == "old"
