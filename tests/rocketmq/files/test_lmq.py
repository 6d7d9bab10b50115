"""Brokers with light queues (``enableLmq=true``) keep all progress in a file of another name."""

import json
import os

import pytest

from tidemark.rocketmq.files.store_snapshot import read_store

pytestmark = pytest.mark.usefixtures("short_pauses")

NORMAL, LMQ = "consumerOffset.json", "lmqConsumerOffset.json"


@pytest.fixture
def light(store):
    """Group g has read 2 messages of topic t by the file that is written, 1 by the one before."""
    for _ in range(3):
        store.put("t")
    store.write()
    store.configure({"t": 1}, {"t@g": {0: 1}})
    # As `LmqConsumerOffsetManager` of 5.3 writes it; groups that are light themselves have
    # queue 0 only, in a table of their own.
    text = '{"dataVersion":{"counter":1},"groupTopicMap":{"g":["t"]},"lmqOffsetTable":%s,%s}'
    table = json.dumps({"%LMQ%a@%LMQ%GID_a": 7})
    store.config(LMQ, text % (table, '"offsetTable":{"t@g":{0:2}}'))
    return store


def written(store, name, seconds):
    """Lets a file be so many seconds old."""
    path = store.root / "config" / name
    at = path.stat().st_mtime - seconds
    os.utime(path, (at, at))


def committed(snapshot):
    return [
        (row.topic, row.consumer_group, row.queue_id, row.consumer_offset)
        for row in snapshot.consumer_offsets
    ]


def test_it_is_read_where_it_is_the_only_one(light):
    (light.root / "config" / NORMAL).unlink()
    snapshot = read_store(light.root)
    assert (snapshot.status, snapshot.problems) == ("COMPLETE", [])
    assert committed(snapshot) == [("t", "g", 0, 2)]


@pytest.mark.parametrize(("older", "newer", "offset"), [(NORMAL, LMQ, 2), (LMQ, NORMAL, 1)])
def test_of_both_the_one_written_last_is_read(light, older, newer, offset):
    """A broker that was given light queues, or from which they were taken, leaves the other one."""
    written(light, older, 3600)
    snapshot = read_store(light.root)
    assert committed(snapshot) == [("t", "g", 0, offset)]
    (problem,) = snapshot.problems
    assert (snapshot.status, problem.operation) == ("PARTIAL", f"READ {older}")
    assert problem.endpoint == str(light.root / "config" / older)
    assert problem.message == f"left over: {newer} was written later, by 3600 s, and is read"


def test_the_one_written_last_counts_while_it_is_rewritten(light):
    written(light, NORMAL, 3600)
    path = light.root / "config" / LMQ
    path.rename(path.with_name(f"{LMQ}.bak"))
    snapshot = read_store(light.root)
    assert committed(snapshot) == [("t", "g", 0, 2)]
    assert [problem.operation for problem in snapshot.problems] == [f"READ {NORMAL}", f"READ {LMQ}"]


def test_a_leftover_file_replaces_no_unreadable_one(light):
    written(light, NORMAL, 3600)
    light.config(LMQ, "{")
    snapshot = read_store(light.root)
    assert committed(snapshot) == []
    assert [problem.operation for problem in snapshot.problems] == [
        f"READ {NORMAL}",
        "GET_ALL_CONSUMER_OFFSET",
    ]
