"""Consume queues and the commit log, on files of five entries and a thousand bytes."""

import struct
import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.rocketmq.files.conftest import (
    CQ_FILE,
    EXT_BASE,
    LOG_FILE,
    STORED,
    StoreBuilder,
    write_files,
)
from tidemark.rocketmq.files.mapped_files import FileError
from tidemark.rocketmq.files.message_files import BatchConsumeQueue, CommitLog, PlainConsumeQueue
from tidemark.rocketmq.files.store_folder import BrokerStore


def plain(store, topic="t", queue_id=0):
    place = Path(topic, str(queue_id))
    return PlainConsumeQueue(
        store.root / "consumequeue" / place, store.root / "consumequeue_ext" / place
    )


@pytest.mark.parametrize("messages", [0, 1, 4, 5, 6, 10, 13])
def test_max_offset_is_after_the_last_entry(store, messages):
    for _ in range(messages):
        store.put("t")
    store.write()
    with plain(store) as queue:
        assert queue.max_offset(CQ_FILE) == messages


def test_a_file_allocated_ahead_changes_nothing(store):
    for _ in range(5):
        store.put("t")
    store.write()
    folder = store.root / "consumequeue" / "t" / "0"
    (folder / f"{CQ_FILE:020d}").write_bytes(bytes(CQ_FILE))
    (folder / f"{2 * CQ_FILE:020d}").touch()
    with plain(store) as queue:
        assert queue.max_offset(CQ_FILE) == 5


@given(
    expired=st.integers(0, 40),
    first_index=st.integers(0, 12),
    messages=st.integers(1, 30),
)
def test_min_offsets_follow_from_the_retained_log(expired, first_index, messages):
    """Against a plain reading of the rule: the first entry at or after the oldest byte."""
    with tempfile.TemporaryDirectory() as folder:
        store = StoreBuilder(Path(folder) / "store", first=LOG_FILE)
        places = [store.put("t") for _ in range(messages)]
        store.write(first_index)
        oldest = LOG_FILE + expired * 100
        left = [first_index + at for at, place in enumerate(places) if place >= oldest]
        end = first_index + messages
        with plain(store) as queue:
            assert queue.max_offset(CQ_FILE) == end
            assert queue.min_offset(oldest, CQ_FILE) == (left[0] if left else end)
            entries = [(entry.position, entry.physical_offset) for entry in queue.entries(0, 1000)]
            assert entries == list(enumerate(places, first_index))


def test_filler_in_a_young_commit_log_is_no_message(store):
    store.put("t")
    store.write(first_index=3)
    with plain(store) as queue:
        assert (queue.min_offset(0), queue.max_offset()) == (3, 4)
        assert queue.entry(2) is None


@pytest.mark.parametrize(
    ("size", "reason"), [(0, "is empty"), (33, "is cut off"), (60, "is cut off")]
)
def test_a_truncated_file_gives_no_offset(store, size, reason):
    for _ in range(4):
        store.put("t")
    store.write()
    path = store.root / "consumequeue" / "t" / "0" / f"{0:020d}"
    path.write_bytes(path.read_bytes()[:size])
    with plain(store) as queue, pytest.raises(FileError, match=reason) as caught:
        queue.max_offset(CQ_FILE)
    assert caught.value.path == path


def test_a_missing_file_gives_no_min_offset(store):
    for _ in range(12):
        store.put("t")
    store.write()
    (store.root / "consumequeue" / "t" / "0" / f"{CQ_FILE:020d}").unlink()
    with plain(store) as queue:
        assert queue.max_offset(CQ_FILE) == 12
        with pytest.raises(FileError, match="next file begins at 200"):
            queue.min_offset(0, CQ_FILE)


def test_tags(store):
    tags = [2598919, -800042449, 0, -(2**31), 1_790_000_000_000]
    for tag in tags:
        store.put("t", tag=tag)
    store.write()
    with BrokerStore(store.root) as broker_store:
        rows = list(broker_store.queue_tags("broker-a", "t", 0, 0, 100))
        assert [row.tags_code for row in rows] == tags
        assert [(row.position, row.size) for row in rows] == [(at, 120) for at in range(5)]
        assert [row.position for row in broker_store.queue_tags("broker-a", "t", 0, 1, 3)] == [1, 2]


def test_more_entries_than_are_read_at_a_time(store):
    entries = b"".join(struct.pack(">qiq", 100 * at, 100, at) for at in range(10_000))
    write_files(store.root / "consumequeue" / "t" / "0", entries, 60_000, 0)
    with plain(store) as queue:
        tags = [entry.tags_code for entry in queue.entries(1_234, 9_876)]
    assert tags == list(range(1_234, 9_876))


def test_tags_and_times_in_ext_files(store):
    store.put("t", tag=EXT_BASE)
    store.put("t", tag=EXT_BASE + 20)
    store.put("t", tag=EXT_BASE + 500)
    store.write()
    unit = struct.Struct(">hqqh")
    body = unit.pack(20, 2112, STORED + 7, 0) + unit.pack(20, -5, STORED + 9, 0)
    write_files(store.root / "consumequeue_ext" / "t" / "0", body, 400, 0)
    with BrokerStore(store.root) as broker_store:
        rows = list(broker_store.queue_tags("broker-a", "t", 0, 0, 3))
        assert [row.tags_code for row in rows] == [2112, -5, None]
        assert broker_store.stored_at("t", 0, 0).timestamp() * 1000 == STORED + 7
        assert broker_store.stored_at("t", 0, 2).timestamp() * 1000 == STORED + 2000


def batch(store, *batches):
    """A batch queue: (physical offset, position, messages) each."""
    unit = struct.Struct(">qiqqqhii")
    body = b"".join(
        unit.pack(place, 100, 7, STORED + place, position, messages, 0, 0)
        for place, position, messages in batches
    )
    folder = store.root / "batchconsumequeue" / "t" / "0"
    write_files(folder, body, 46 * 4, 0)
    return BatchConsumeQueue(folder)


def test_batches(store):
    batches = [(0, 0, 10), (100, 10, 1), (200, 11, 30), (300, 41, 2), (400, 43, 5)]
    with batch(store, *batches) as queue:
        assert queue.max_offset() == 48
        assert [queue.min_offset(oldest) for oldest in (0, 1, 200, 250, 400, 401)] == [
            *(0, 10, 11, 41, 43, 48)
        ]
        assert [entry.position for entry in queue.entries(15, 44)] == [11, 41, 43]
        assert queue.entry(40).physical_offset == 200
        assert queue.entry(48) is None
    with BrokerStore(store.root) as broker_store:
        assert broker_store.extent("t", 0).max_offset == 48
        assert broker_store.stored_at("t", 0, 47).timestamp() * 1000 == STORED + 400


# The commit log


def test_store_times_of_both_kinds_of_address(store):
    four, six = store.put("t"), store.put("t", v6=True)
    store.write()
    with CommitLog(store.root) as log:
        assert log.record(four).stored_ms == STORED
        assert log.record(six).stored_ms == STORED + 1000
        assert log.record(four + 1) is None, "no message begins there"


def test_a_record_of_another_offset_is_ignored(store):
    place = store.put("t")
    store.write()
    path = store.root / "commitlog" / f"{0:020d}"
    (store.root / "commitlog" / f"{LOG_FILE:020d}").write_bytes(path.read_bytes())
    with CommitLog(store.root) as log:
        assert log.record(place) and log.record(LOG_FILE + place) is None


@pytest.mark.parametrize("messages", [0, 1, 7, 8, 9, 20])
def test_log_end_and_undispatched_bytes(store, messages):
    places = [store.put("t") for _ in range(messages)]
    store.write()
    end = len(store.log)
    with CommitLog(store.root) as log:
        for done, place in enumerate([*places, end]):
            behind = end - place if done < messages else 0
            assert log.end_and_behind(place) == (end, behind)
