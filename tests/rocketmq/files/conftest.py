"""Small stores, written byte by byte as a broker would."""

import errno
import json
import os
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tidemark.rocketmq.files import local_offsets

CQ_FILE = 100
"""Bytes of a consume-queue file here: five entries."""

LOG_FILE = 1000
"""Bytes of a commit-log file here."""

STORED = 1_790_000_000_000
"""When message number 0 was stored; each further one a second later."""

EXT_BASE = -(2**63)


class StoreBuilder:
    """Appends messages to a store folder; bodies are empty, hosts IPv4 by default."""

    def __init__(self, root: Path, first: int = 0) -> None:
        self.root = root
        self.log = bytearray()
        self.log_start = first
        self.queues: dict[tuple[str, int], list[tuple[int, int, int]]] = {}
        self.number = 0
        (root / "config").mkdir(parents=True)
        (root / "commitlog").mkdir()

    def put(self, topic: str, queue_id: int = 0, tag: int = 0, size: int = 120, v6=False) -> int:
        """Stores one message; returns its physical offset."""
        room = LOG_FILE - len(self.log) % LOG_FILE
        if room < size + 8:  # a message never crosses files: the rest of this one stays blank
            self.log += struct.pack(">ii", room, -875286124) + bytes(room - 8)
        place = self.log_start + len(self.log)
        entries = self.queues.setdefault((topic, queue_id), [])
        head = struct.pack(
            ">iiiiiqqiq", size, -626843481, 0, queue_id, 0, len(entries), place, 16 * v6, 0
        )
        head += bytes(20 if v6 else 8) + struct.pack(">q", STORED + 1000 * self.number)
        self.log += head + bytes(size - len(head))
        self.number += 1
        entries.append((place, size, tag))
        return place

    def write(self, first_index: int = 0) -> None:
        """Writes the files of log and queues; queues begin at an index, in mid-file with filler."""
        write_files(self.root / "commitlog", bytes(self.log), LOG_FILE, self.log_start)
        for (topic, queue_id), entries in self.queues.items():
            filler = first_index % 5
            units = [(0, 2**31 - 1, 0)] * filler + entries
            body = b"".join(struct.pack(">qiq", *unit) for unit in units)
            folder = self.root / "consumequeue" / topic / str(queue_id)
            write_files(folder, body, CQ_FILE, (first_index - filler) * 20)

    def config(self, name: str, value: object) -> Path:
        path = self.root / "config" / name
        path.write_text(value if isinstance(value, str) else json.dumps(value))
        return path

    def configure(
        self, topics: dict[str, int], offsets: dict[str, dict[int, int]], v5=True
    ) -> None:
        """Topics with their queue counts, and progress by ``topic@group``; broker-a of lab."""
        counts = {**topics, "lab_REPLY_TOPIC": 1}
        table = {name: topic_config(name, count, count, v5=v5) for name, count in counts.items()}
        table["lab"] = topic_config("lab", 16, 16, 7, v5=v5)
        table["broker-a"] = topic_config("broker-a", 1, 1, 7, v5=v5)
        self.config("topics.json", {"topicConfigTable": table})
        self.config("subscriptionGroup.json", {"subscriptionGroupTable": {"g": {}}})
        rows = ",".join(
            f'"{key}":{{{",".join(f"{queue}:{at}" for queue, at in of.items())}}}'
            for key, of in offsets.items()
        )
        version = '"dataVersion":{"counter":1},' if v5 else ""
        self.config("consumerOffset.json", f'{{{version}"offsetTable":{{{rows}}}}}')


def topic_config(name: str, read: int, write: int, perm: int = 6, v5=True) -> dict:
    config = {"topicName": name, "readQueueNums": read, "writeQueueNums": write, "perm": perm}
    return config | ({"attributes": {}} if v5 else {})


def write_files(folder: Path, body: bytes, size: int, start: int) -> None:
    """Cuts a range of bytes into files of a size, the last one filled up with zeros."""
    folder.mkdir(parents=True, exist_ok=True)
    for at in range(0, max(len(body), 1), size):
        (folder / f"{start + at:020d}").write_bytes(body[at : at + size].ljust(size, b"\0"))


@pytest.fixture
def store(tmp_path: Path) -> StoreBuilder:
    return StoreBuilder(tmp_path / "store")


@pytest.fixture
def short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    """For files that nobody rewrites meanwhile: what is wrong with one stays so."""
    monkeypatch.setattr(local_offsets, "PAUSES", (0.001, 0.001))


def close_folder(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    """Lets nobody list a folder or reach what is in it, as one of another user; not even root."""

    def guarded(call: Callable[..., Any], also_itself: bool) -> Callable[..., Any]:
        def of(path: Any, *rest: Any, **named: Any) -> Any:
            place = Path(os.fspath(path)) if not isinstance(path, int) else None
            if place and (folder in place.parents or (also_itself and place == folder)):
                raise PermissionError(errno.EACCES, "Permission denied")
            return call(path, *rest, **named)

        return of

    for name in ("stat", "lstat", "open", "scandir"):
        monkeypatch.setattr(os, name, guarded(getattr(os, name), name == "scandir"))
    monkeypatch.setattr(Path, "open", guarded(Path.open, also_itself=False))
