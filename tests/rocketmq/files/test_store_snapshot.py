"""A store folder as a snapshot: small stores, and damaged ones."""

import errno
import os
import struct
import threading
from datetime import UTC, datetime, timedelta

import pytest

from tests.rocketmq.files.conftest import CQ_FILE, LOG_FILE, STORED, topic_config
from tests.support.recorded import FIXTURES
from tidemark.rocketmq.files.local_offsets import read_rewritten
from tidemark.rocketmq.files.mapped_files import FileError
from tidemark.rocketmq.files.store_snapshot import StoreConfig, read_store
from tidemark.rocketmq.records import ConsumerOffset, QueueOffset

pytestmark = pytest.mark.slow


def stored(number):
    return datetime.fromtimestamp(STORED / 1000, UTC) + timedelta(seconds=number)


@pytest.fixture
def small(store):
    """Topic t with queues 0 (3 messages) and 1 (none), group g after the first message."""
    for _ in range(3):
        store.put("t")
    store.put("SCHEDULE_TOPIC_XXXX", 2)
    store.write()
    store.configure({"t": 2}, {"t@g": {0: 1, 1: 0}})
    return store


def queues(snapshot, topic="t"):
    return [row for row in snapshot.queue_offsets if row.topic == topic]


def test_every_row(small):
    snapshot = read_store(small.root)
    assert (snapshot.source, snapshot.status, snapshot.problems) == ("store", "COMPLETE", [])
    assert (snapshot.cluster, snapshot.brokers_expected, snapshot.brokers_answered) == ("lab", 1, 1)
    assert snapshot.queue_offsets == [
        QueueOffset(
            broker="broker-a",
            topic="t",
            queue_id=0,
            min_offset=0,
            max_offset=3,
            newest_stored_at=stored(2),
        ),
        QueueOffset(
            broker="broker-a",
            topic="t",
            queue_id=1,
            min_offset=0,
            max_offset=0,
            newest_stored_at=None,
        ),
    ]
    assert snapshot.consumer_offsets == [
        ConsumerOffset(
            broker="broker-a",
            consumer_group="g",
            topic="t",
            queue_id=0,
            client_id=None,
            consumer_offset=1,
            first_unconsumed_at=stored(1),
        ),
        ConsumerOffset(
            broker="broker-a",
            consumer_group="g",
            topic="t",
            queue_id=1,
            client_id=None,
            consumer_offset=0,
        ),
    ]
    assert [(row.topic, row.kind) for row in snapshot.topics] == [
        *(("broker-a", "system"), ("lab", "system"), ("lab_REPLY_TOPIC", "system"), ("t", "normal"))
    ]
    assert [row.consumer_group for row in snapshot.consumer_groups] == ["g"]
    (broker,) = snapshot.brokers
    assert (broker.broker, broker.broker_id, broker.address) == ("broker-a", 0, str(small.root))
    assert (broker.commit_log_min_offset, broker.commit_log_max_offset) == (0, 480)
    assert (broker.dispatch_behind_bytes, broker.earliest_stored_at) == (0, stored(0))
    assert broker.version is broker.config is broker.disk_ratio is None


def test_a_copy_has_the_instant_it_was_taken_at(small):
    at = datetime(2026, 11, 19, 23, 15, 0, 123456, tzinfo=UTC)
    snapshot = read_store(small.root, cluster="mine", broker="b", observed_at=at)
    assert snapshot.snapshot_id == "20261119T231500123Z-mine"
    assert {row.broker for row in snapshot.queue_offsets} == {"b"}


def test_messages_that_expired(small):
    for _ in range(10):
        small.put("t")
    small.write()
    (small.root / "commitlog" / f"{0:020d}").unlink()
    snapshot = read_store(small.root)
    assert snapshot.status == "COMPLETE"
    # Number 0 of the log is SCHEDULE_TOPIC_XXXX's; the first file ends after 8 messages.
    assert queues(snapshot)[0] == QueueOffset(
        broker="broker-a",
        topic="t",
        queue_id=0,
        min_offset=7,
        max_offset=13,
        newest_stored_at=stored(13),
    )
    assert snapshot.consumer_offsets[0].first_unconsumed_at is None
    assert snapshot.brokers[0].commit_log_min_offset == LOG_FILE


def test_all_messages_of_a_queue_expired(store):
    store.put("old")
    for _ in range(10):
        store.put("t")
    store.write()
    store.configure({"old": 1}, {"old@g": {0: 0}})
    (store.root / "commitlog" / f"{0:020d}").unlink()
    snapshot = read_store(store.root)
    assert (snapshot.status, queues(snapshot, "old")) == (
        "COMPLETE",
        [
            QueueOffset(
                broker="broker-a",
                topic="old",
                queue_id=0,
                min_offset=1,
                max_offset=1,
                newest_stored_at=None,
            )
        ],
    )


@pytest.mark.parametrize(("v5", "unconsumed"), [(True, [0, 1, 2]), (False, [0])])
def test_queues_that_a_broker_reports(store, v5, unconsumed):
    """4.9 those that are written, from 5.0 on those that are read too (GET_TOPIC_STATS_INFO).

    Where a group reads a topic, 4.9 gets one request for each of the others.
    """
    store.configure({}, {"t@g": {0: 0, 2: 0, 5: 0}}, v5=v5)
    table = {topic: topic_config(topic, 3, 1, v5=v5) for topic in ("t", "u")}
    store.config("topics.json", {"topicConfigTable": table})
    snapshot = read_store(store.root, cluster="lab", broker="broker-a")
    assert [row.queue_id for row in queues(snapshot)] == [0, 1, 2]
    assert [row.queue_id for row in queues(snapshot, "u")] == unconsumed
    assert [row.queue_id for row in snapshot.consumer_offsets] == [0, 2]


def test_retry_dlq_broadcast_system_and_lost_topics(store):
    topics = {"t": 1, "%RETRY%g": 1, "%DLQ%g": 1, "rmq_sys_wheel_timer": 1}
    store.configure(
        topics,
        {
            "t@g": {0: -1},
            "%RETRY%g@g": {0: 0},
            "t@g-b@broadcast": {0: 0},
            "gone@g": {0: 5},
            "t@a@b@c": {0: 5},
        },
    )
    snapshot = read_store(store.root)
    assert [row.topic for row in snapshot.queue_offsets] == ["%DLQ%g", "%RETRY%g", "t"]
    assert [
        (row.consumer_group, row.topic, row.consumer_offset, row.offset_store)
        for row in snapshot.consumer_offsets
    ] == [
        ("g", "%RETRY%g", 0, "broker"),
        ("g", "t", None, "broker"),
        ("g-b", "t", 0, "broker_broadcast"),
    ]


@pytest.mark.parametrize("v5", [True, False])
def test_a_topic_that_was_given_fewer_queues(store, v5):
    """A broker of 4.9 does not report the newest store time of queue 1."""
    for number in (0, 1, 1):
        store.put("t", number)
    store.write()
    store.configure({}, {"t@g": {0: 0, 1: 1}}, v5=v5)
    store.config("topics.json", {"topicConfigTable": {"t": topic_config("t", 2, 1, v5=v5)}})
    snapshot = read_store(store.root, cluster="lab", broker="broker-a")
    assert (snapshot.status, snapshot.queue_offsets) == (
        "COMPLETE",
        [
            QueueOffset(
                broker="broker-a",
                topic="t",
                queue_id=0,
                min_offset=0,
                max_offset=1,
                newest_stored_at=stored(0),
            ),
            QueueOffset(
                broker="broker-a",
                topic="t",
                queue_id=1,
                min_offset=0,
                max_offset=2,
                newest_stored_at=stored(2) if v5 else None,
            ),
        ],
    )
    assert [
        (row.queue_id, row.consumer_offset, row.first_unconsumed_at)
        for row in snapshot.consumer_offsets
    ] == [(0, 0, stored(0)), (1, 1, stored(2))]


@pytest.mark.parametrize("version", ["4.9.7", "5.3.3"])
def test_configuration_of_real_brokers(version, tmp_path):
    folder = FIXTURES / "stores" / version
    config = StoreConfig.of(folder)
    assert config.problems == []
    assert (config.cluster, config.broker) == ("LabCluster", "broker-a")
    assert config.since_5 == version.startswith("5")
    assert config.delay_offsets is not None and set(config.delay_offsets) == {3, 4}
    snapshot = read_store(folder)
    assert snapshot.cluster == "LabCluster"
    assert [problem.operation for problem in snapshot.problems] == []
    kinds = {row.topic: row.kind for row in snapshot.topics}
    assert kinds["LabCluster"] == kinds["broker-a"] == kinds["LabCluster_REPLY_TOPIC"] == "system"


def test_a_static_topic_is_unknown_and_no_problem(small):
    """Its queues are mapped to those whose files lie here, under other numbers and offsets."""
    hosted = '{3:[{"bname":"broker-a","endOffset":-1,"logicOffset":500,"queueId":0}]}'
    mapping = f'{{"bname":"broker-a","hostedQueues":{hosted},"topic":"t","totalQueues":4}}'
    # As a 5.3.3 broker writes it, without the fields that do not matter here.
    small.config("topicQueueMapping.json", f'{{"topicQueueMappingInfoMap":{{"t":{mapping}}}}}')
    snapshot = read_store(small.root)
    assert queues(snapshot) == [
        QueueOffset(
            broker="broker-a",
            topic="t",
            queue_id=3,
            min_offset=None,
            max_offset=None,
            newest_stored_at=None,
        )
    ]
    assert {row.first_unconsumed_at for row in snapshot.consumer_offsets} <= {None}
    assert (snapshot.status, snapshot.problems) == ("COMPLETE", [])


def test_unreadable_mappings_are_a_problem(small):
    path = small.config("topicQueueMapping.json", "{")
    snapshot = read_store(small.root)
    (problem,) = snapshot.problems
    assert (problem.endpoint, problem.operation) == (str(path), "READ topicQueueMapping.json")


# Damaged and missing files


def test_the_last_content_but_one(small):
    path = small.root / "config" / "consumerOffset.json"
    path.rename(path.with_name(path.name + ".bak"))
    for text in (None, "", '{"offsetTable":{"t@g":{0:', '{"offsetTable":{"t@g":{0:"1"}}}'):
        if text is not None:
            path.write_text(text)
        snapshot = read_store(small.root)
        assert snapshot.status == "PARTIAL"
        (problem,) = snapshot.problems
        assert (problem.endpoint, problem.operation) == (str(path), "READ consumerOffset.json")
        assert "read consumerOffset.json.bak instead" in problem.message
        assert [row.consumer_offset for row in snapshot.consumer_offsets] == [1, 0]


def test_a_negative_offset_stays_as_read(small):
    """As in a live snapshot: the other rows hold, and -1 is no offset at all."""
    small.configure({"t": 2}, {"t@g": {0: -5, 1: 0}, "t@h": {0: 1, 1: -1}})
    snapshot = read_store(small.root)
    assert [
        (row.consumer_group, row.queue_id, row.consumer_offset) for row in snapshot.consumer_offsets
    ] == [("g", 0, -5), ("g", 1, 0), ("h", 0, 1), ("h", 1, None)]
    assert [row.first_unconsumed_at for row in snapshot.consumer_offsets][:2] == [None, None]
    (problem,) = snapshot.problems
    assert (snapshot.status, problem.endpoint) == ("PARTIAL", str(small.root))
    assert problem.operation == "GET_ALL_CONSUMER_OFFSET"
    assert problem.message == "1 offsets below 0, such as -5 of g on t queue 0"


@pytest.mark.parametrize("wrong", ['"1"', "1.5", "null", str(2**63)])
def test_an_invalid_offset_refuses_the_file(small, wrong):
    small.config("consumerOffset.json", f'{{"offsetTable":{{"t@g":{{0:1,1:{wrong}}}}}}}')
    snapshot = read_store(small.root)
    assert [problem.operation for problem in snapshot.problems] == ["GET_ALL_CONSUMER_OFFSET"]
    assert snapshot.consumer_offsets == [] and len(queues(snapshot)) == 2


def test_no_consumer_offsets_at_all(small):
    path = small.root / "config" / "consumerOffset.json"
    path.write_text("{" * 10_000)
    snapshot = read_store(small.root)
    (problem,) = snapshot.problems
    assert (problem.endpoint, problem.operation) == (str(path), "GET_ALL_CONSUMER_OFFSET")
    assert len(problem.message) < 500
    assert snapshot.consumer_offsets == [] and len(queues(snapshot)) == 2


def test_a_file_that_is_rewritten_meanwhile(tmp_path):
    """Moved away, half written, whole: what a reader meets within milliseconds."""
    path = tmp_path / "offsets.json"

    def write_later():
        path.write_text("who")
        path.write_text("whole")

    def decode(body):
        if body != b"whole":
            raise ValueError("half")
        return body.decode()

    timer = threading.Timer(0.01, write_later)
    timer.start()
    assert read_rewritten(path, decode) == ("whole", None)
    timer.join()


def test_a_broker_that_writes_meanwhile(store):
    """It puts a message into the log, then into its queue, and begins files of zeros as needed."""
    total = 400
    store.configure({"t": 1}, {"t@g": {0: 0}})
    places = [store.put("t") for _ in range(total)]
    queue = store.root / "consumequeue" / "t" / "0"
    queue.mkdir(parents=True)

    def write(folder, size, at, data):
        path = folder / f"{at // size * size:020d}"
        if not path.exists():
            unfinished = folder / "new"
            unfinished.write_bytes(bytes(size))
            unfinished.rename(path)
        with path.open("r+b") as file:
            file.seek(at % size)
            file.write(data)

    def produce():
        for number, place in enumerate(places):
            end = places[number + 1] if number + 1 < total else len(store.log)
            message, rest = store.log[place : place + 120], store.log[place + 120 : end]
            write(store.root / "commitlog", LOG_FILE, place, bytes(message))
            if rest:  # nothing more in this file
                write(store.root / "commitlog", LOG_FILE, place + 120, bytes(rest))
            write(queue, CQ_FILE, number * 20, struct.pack(">qiq", place, 120, 0))

    producer = threading.Thread(target=produce)
    producer.start()
    seen, more = [], True
    while more:
        more = producer.is_alive()
        snapshot = read_store(store.root)
        assert snapshot.problems == []
        (row,) = queues(snapshot)
        assert row.newest_stored_at == (stored(row.max_offset - 1) if row.max_offset else None)
        seen.append(row.max_offset)
        log_end = snapshot.brokers[0].commit_log_max_offset
        assert log_end >= (places[row.max_offset - 1] + 120 if row.max_offset else 0)
    assert seen == sorted(seen) and seen[-1] == total


def test_topics_unknown(small):
    (small.root / "config" / "topics.json").unlink()
    with pytest.raises(FileError, match="--cluster NAME"):
        read_store(small.root)
    snapshot = read_store(small.root, cluster="lab", broker="broker-a")
    assert [problem.operation for problem in snapshot.problems] == ["GET_ALL_TOPIC_CONFIG"]
    assert [row.queue_id for row in queues(snapshot)] == [0]
    assert [row.consumer_offset for row in snapshot.consumer_offsets] == [1]


def test_a_broken_queue_file_affects_its_queue_only(small):
    small.put("t", 1)
    small.write()
    path = small.root / "consumequeue" / "t" / "0" / f"{0:020d}"
    path.write_bytes(path.read_bytes()[:33])
    snapshot = read_store(small.root)
    assert snapshot.status == "PARTIAL"
    (problem,) = snapshot.problems
    assert (problem.endpoint, problem.operation) == (str(path), "GET_TOPIC_STATS_INFO t")
    assert [(row.min_offset, row.max_offset) for row in queues(snapshot)] == [(None, None), (0, 1)]
    assert [row.consumer_offset for row in snapshot.consumer_offsets] == [1, 0]
    assert snapshot.brokers[0].dispatch_behind_bytes is None


@pytest.mark.parametrize("inside", ["", "0"])
def test_a_folder_that_may_not_be_listed_is_unknown(small, inside, monkeypatch):
    """Root may list everything, so the refusal is made up."""
    closed, scandir = small.root / "consumequeue" / "t" / inside, os.scandir

    def refuse(path):
        if os.fspath(path) == str(closed):
            raise PermissionError(errno.EACCES, "Permission denied")
        return scandir(path)

    monkeypatch.setattr(os, "scandir", refuse)
    snapshot = read_store(small.root)
    (problem,) = snapshot.problems
    assert (problem.endpoint, problem.message) == (str(closed), "Permission denied")
    empty = (0, 0) if inside else (None, None)
    assert [(row.min_offset, row.max_offset) for row in queues(snapshot)] == [(None, None), empty]
    assert [row.consumer_offset for row in snapshot.consumer_offsets] == [1, 0]


def test_a_commit_log_that_is_cut_off(small):
    for _ in range(10):
        small.put("t")
    small.write()
    path = small.root / "commitlog" / f"{LOG_FILE:020d}"
    path.write_bytes(path.read_bytes()[:130])
    snapshot = read_store(small.root)
    (problem,) = snapshot.problems
    assert problem.endpoint == str(path) and "is cut off" in problem.message
    assert queues(snapshot)[0] == QueueOffset(
        broker="broker-a", topic="t", queue_id=0, min_offset=0, max_offset=13, newest_stored_at=None
    )
    assert snapshot.consumer_offsets[0].first_unconsumed_at == stored(1)


def test_no_commit_log(small):
    for path in (small.root / "commitlog").iterdir():
        path.unlink()
    snapshot = read_store(small.root)
    (problem,) = snapshot.problems
    assert "no commit log here" in problem.message
    assert [(row.min_offset, row.max_offset) for row in queues(snapshot)] == [(None, 3), (0, 0)]


def test_no_consume_queues_though_there_are_messages(small):
    (small.root / "consumequeue").rename(small.root / "elsewhere")
    snapshot = read_store(small.root)
    (problem,) = snapshot.problems
    assert "no consume queues here" in problem.message
    assert {(row.min_offset, row.max_offset) for row in queues(snapshot)} == {(None, None)}


def test_a_new_broker_has_empty_queues(store):
    store.configure({"t": 2}, {})
    snapshot = read_store(store.root)
    assert snapshot.status == "COMPLETE"
    assert [(row.min_offset, row.max_offset) for row in queues(snapshot)] == [(0, 0), (0, 0)]


@pytest.mark.parametrize(
    ("made", "reason"),
    [
        ("dledger-n0/data/x", "DLedger"),
        ("consumequeue/CURRENT", "consumequeue is RocksDB"),
        ("consumequeue/000012.sst", "consumequeue is RocksDB"),
        ("config/consumerOffsets/CURRENT", "config/consumerOffsets is RocksDB"),
        ("config/rdb/MANIFEST-000005", "config/rdb is RocksDB"),
    ],
)
def test_stores_of_another_kind_are_refused(small, made, reason):
    path = small.root / made
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch()
    with pytest.raises(FileError, match=reason) as caught:
        read_store(small.root)
    assert "\n" not in str(caught.value) and str(small.root) in str(caught.value)


def test_users_of_5_3_are_always_in_rocksdb(small):
    (small.root / "config" / "users").mkdir()
    (small.root / "config" / "users" / "CURRENT").touch()
    assert read_store(small.root).status == "COMPLETE"


def test_folders_that_are_no_store(small, tmp_path):
    for folder, reason in [
        (tmp_path / "nothing", "no such folder"),
        (tmp_path, f"is it {tmp_path / 'store'}?"),
    ]:
        with pytest.raises(FileError) as caught:
            read_store(folder)
        assert reason in str(caught.value)


def test_a_damaged_number_does_not_become_as_many_rows(small):
    small.config("topics.json", {"topicConfigTable": {"t": topic_config("t", 2_000_000_000, 2)}})
    snapshot = read_store(small.root, cluster="lab", broker="broker-a")
    assert [problem.operation for problem in snapshot.problems] == ["GET_ALL_TOPIC_CONFIG"]


DELAYS = '{"offsetTable":{3:7}}'


@pytest.mark.parametrize(
    ("delays", "given", "broker_id", "role", "staleness_ms"),
    [
        pytest.param('{\n\t"offsetTable":{3:7\n\t}\n}', None, 0, None, 5_000, id="a master's"),
        pytest.param(DELAYS, None, 1, "SLAVE", 60_000, id="a slave's"),
        pytest.param(DELAYS, 2, 2, "SLAVE", 60_000, id="the slave named"),
        pytest.param(DELAYS, 0, 0, None, 5_000, id="a master, as given"),
        pytest.param(None, None, 0, None, 5_000, id="without delays"),
    ],
)
def test_a_slaves_folder_is_known(small, delays, given, broker_id, role, staleness_ms):
    """A slave stores the master's `delayOffset.json` as it came, and its commits are older."""
    if delays:
        small.config("delayOffset.json", delays)
    snapshot = read_store(small.root, broker_id=given)
    (row,) = snapshot.brokers
    assert (row.broker_id, row.role, snapshot.staleness_ms) == (broker_id, role, staleness_ms)
    assert snapshot.header()["staleness_ms"] == staleness_ms
    assert snapshot.queue_offsets and snapshot.consumer_offsets
