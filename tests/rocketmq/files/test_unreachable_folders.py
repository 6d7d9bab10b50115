"""Folders of a store that exist and cannot be reached: their contents are unknown."""

import shutil
from pathlib import Path

import pytest

from tests.rocketmq.files.conftest import StoreBuilder, close_folder
from tidemark.rocketmq.files.mapped_files import FileError
from tidemark.rocketmq.files.store_snapshot import read_store
from tidemark.rocketmq.records import Snapshot

pytestmark = pytest.mark.usefixtures("short_pauses")


@pytest.fixture
def folder(store: StoreBuilder) -> Path:
    """A store with three messages in queue 0 of topic t, of which group g consumed one."""
    for _ in range(3):
        store.put("t")
    store.write()
    store.configure({"t": 2}, {"t@g": {0: 1}})
    return store.root


def ranges(snapshot: Snapshot) -> list[tuple[int | None, int | None]]:
    return [(row.min_offset, row.max_offset) for row in snapshot.queue_offsets if row.topic == "t"]


@pytest.mark.parametrize(
    ("linked", "expected"),
    [("t/0", [(None, None), (0, 0)]), ("t", [(None, None), (None, None)])],
)
def test_a_link_without_target_is_no_empty_queue(
    folder: Path, linked: str, expected: list[tuple[int | None, int | None]]
) -> None:
    """The disk that a topic was moved to is not mounted: its queues seemed to be empty."""
    place = folder / "consumequeue" / linked
    shutil.rmtree(place)
    place.symlink_to(folder / "not mounted")
    snapshot = read_store(folder)
    assert ranges(snapshot) == expected
    assert [problem.line for problem in snapshot.problems] == [
        f"{place}: GET_TOPIC_STATS_INFO t: links to what is not there"
    ]


def test_a_closed_configuration_is_a_problem(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing was read, and the error named a folder that does not exist."""
    close_folder(monkeypatch, folder / "config")
    snapshot = read_store(folder, cluster="lab", broker="broker-a")
    assert (snapshot.status, snapshot.brokers[0].commit_log_max_offset) == ("PARTIAL", 360)
    unread = {Path(problem.endpoint).name for problem in snapshot.problems}
    assert {"consumerOffset.json", "topics.json", "delayOffset.json"} <= unread


def test_a_closed_store_is_named(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    close_folder(monkeypatch, folder)
    with pytest.raises(FileError, match="Permission denied"):
        read_store(folder, cluster="lab", broker="broker-a")
