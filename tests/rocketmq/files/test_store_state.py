"""How a broker left its store: clean or not, its checkpoint, and whether its index is whole."""

import struct
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tidemark.rocketmq.files.store_folder import Checkpoint, StoreState
from tidemark.rocketmq.files.store_snapshot import read_store

MS = 1_795_252_810_215


def at(ms: int) -> datetime:
    return datetime.fromtimestamp(ms / 1000, UTC)


def checkpoint(root: Path, *times: int, size: int = 4096) -> None:
    body = struct.pack(f">{len(times)}q", *times)
    (root / "checkpoint").write_bytes(body.ljust(size, b"\0"))


def index(root: Path, name: str, *header: int, entries: int = 8) -> None:
    folder = root / "index"
    folder.mkdir(exist_ok=True)
    body = struct.pack(">qqqqii", *header) if header else bytes(40)
    (folder / name).write_bytes(body + bytes(entries * 20))


def test_clean_shutdown_leaves_no_abort(tmp_path):
    checkpoint(tmp_path, MS, MS + 1, MS + 2)
    index(tmp_path, "20261121172009215", MS, MS + 9, 0, 500, 3, 5)
    state = StoreState.of(tmp_path)
    assert state.checkpoint == Checkpoint(at(MS), at(MS + 1), at(MS + 2))
    assert (state.shut_down_cleanly, state.is_index_whole(), state.index_end) == (True, True, 500)
    assert state.faults == []


@pytest.mark.parametrize(
    ("index_ms", "whole", "deleted"),
    [(MS + 9, True, 0), (MS + 8, None, 1), (0, None, 1)],
    ids=["reached", "behind", "never written"],
)
def test_a_start_after_a_crash_truncates_the_index(tmp_path, index_ms, whole, deleted):
    (tmp_path / "abort").touch()
    checkpoint(tmp_path, MS, MS, index_ms)
    index(tmp_path, "20261121172009215", MS, MS + 9, 0, 500, 3, 5)
    state = StoreState.of(tmp_path)
    assert (state.shut_down_cleanly, state.is_index_whole()) == (False, whole)
    assert len(state.beyond_checkpoint()) == deleted


def test_a_new_broker_has_neither_checkpoint_nor_index(tmp_path):
    state = StoreState.of(tmp_path)
    assert (state.checkpoint, state.is_index_whole(), state.faults) == (None, None, [])


def test_a_blank_index_file_is_no_fault(tmp_path):
    index(tmp_path, "20261121172009215")
    (tmp_path / "index" / "not-an-index").touch()
    state = StoreState.of(tmp_path)
    assert (state.is_index_whole(), state.index_end) == (True, None)


@pytest.mark.parametrize(
    ("header", "entries", "reason"),
    [
        ((MS, MS - 1, 0, 500, 3, 5), 8, "header from 0 to 500"),
        ((MS, MS, 600, 500, 3, 5), 8, "header from 600 to 500"),
        ((MS, MS, 100, 500, 3, 5), 2, "80 bytes for 5 entries"),
        ((MS, MS, 90, 500, 3, 5), 8, "begins at 90, before the end 100 of the file before"),
    ],
)
def test_a_damaged_index_file_is_named(tmp_path, header, entries, reason):
    index(tmp_path, "20261121172009215", MS, MS, 0, 100, 3, 5)
    index(tmp_path, "20261121172109215", *header, entries=entries)
    state = StoreState.of(tmp_path)
    (fault,) = state.faults
    assert fault.path == tmp_path / "index" / "20261121172109215"
    assert reason in fault.reason
    assert state.is_index_whole() is False


def test_a_cut_checkpoint_is_named(tmp_path):
    (tmp_path / "checkpoint").write_bytes(b"\0" * 23)
    (fault,) = StoreState.of(tmp_path).faults
    assert str(fault) == f"{tmp_path / 'checkpoint'}: 23 bytes, where a checkpoint has 24 or more"


def test_a_store_snapshot_holds_the_state(store):
    store.put("orders")
    store.put("orders")
    store.write()
    store.configure({"orders": 1}, {})
    checkpoint(store.root, MS, MS, MS)
    index(store.root, "20261121172009215", MS, MS, 0, 120, 1, 2)
    snapshot = read_store(store.root, cluster="lab", broker="broker-a")
    (row,) = snapshot.brokers
    assert (row.shut_down_cleanly, row.checkpoint_log_at, row.index_whole) == (True, at(MS), True)
    assert row.commit_log_max_offset is not None
    assert row.index_behind_bytes == row.commit_log_max_offset - 120
    (store.root / "index" / "20261121172009215").write_bytes(b"")
    damaged = read_store(store.root, cluster="lab", broker="broker-a")
    assert (damaged.status, damaged.brokers[0].index_whole) == ("PARTIAL", False)
    assert [problem.operation for problem in damaged.problems] == ["READ state"]
