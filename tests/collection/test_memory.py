"""Memory of the collector: a broker that was killed is still expected for a day."""

from datetime import UTC, datetime, timedelta
from errno import ENOSPC

import pytest

from tests.support.cluster_history import BROKERS, Minute, snapshot
from tidemark.collection.memory import Memory
from tidemark.host.state import FileState, KeptState
from tidemark.rocketmq.admin.responses import BrokerGroup, ClusterInfo
from tidemark.rocketmq.records import Broker
from tidemark.rocketmq.snapshot.discovery import expected_readings
from tidemark.rocketmq.snapshot.problems import Problems
from tidemark.rocketmq.snapshot.target import ClusterTarget
from tidemark.settings.home import Home

START = datetime(2026, 11, 19, 12, tzinfo=UTC)
TARGET = "127.0.0.1:9876;127.0.0.1:9877"
ALL = tuple((name, 0, address) for name, address in BROKERS.items())


@pytest.fixture
def state(tmp_path):
    return FileState(Home.of(tmp_path))


def minutes(number):
    return START + timedelta(minutes=number)


def test_at_first_nothing_is_known(state):
    memory = Memory.of(state, TARGET)
    assert (memory.cluster, memory.remembered(START)) == (None, ())


def test_who_responded_is_remembered_by_the_next_process(state):
    Memory.of(state, TARGET).learn(snapshot(START, Minute(at=0)))
    memory = Memory.of(state, TARGET)
    assert memory.cluster == "past"
    assert memory.remembered(minutes(1)) == ALL


def test_an_unreachable_broker_is_remembered_for_a_day(state):
    memory = Memory.of(state, TARGET)
    memory.learn(snapshot(START, Minute(at=0)))
    memory.learn(snapshot(START, Minute(at=30, unreachable="broker-b")))
    day = 24 * 60
    assert memory.remembered(minutes(day)) == ALL
    assert memory.remembered(minutes(day + 1)) == ALL[:1]


def test_a_clock_that_was_years_ahead_is_forgotten(state):
    memory = Memory.of(state, TARGET)
    memory.learn(snapshot(START + timedelta(days=1000), Minute(at=0)))
    memory.learn(snapshot(START, Minute(at=0, unreachable="broker-b")))
    assert memory.remembered(minutes(1)) == ALL[:1]


@pytest.mark.parametrize(
    ("before", "now", "minute", "stands"),
    [
        pytest.param((900, 3), (900, 7), 10, True, id="it was late and has not moved"),
        pytest.param((900, 3), (950, 3), 10, False, id="it moves"),
        pytest.param((900, 0), (900, 7), 10, False, id="it was not late, and the master moved"),
        pytest.param(None, (900, 7), 10, None, id="the first deep snapshot"),
        pytest.param((900, 3), None, 10, None, id="the slave did not respond"),
        pytest.param((900, 3), (900, 7), 1, None, id="slaves copy once a minute"),
    ],
)
def test_a_copy_that_stands_shows_in_two_deep_snapshots(state, before, now, minute, stands):
    """Each by a process of its own; what another snapshot reads in between changes nothing."""

    def seen(copy, at=0.0, *, is_deep=True):
        taken = snapshot(START, Minute(at=at))
        slave = Broker(broker="broker-a", broker_id=1, address="10.0.0.1:10912", version="V5_5_0")
        if copy:
            slave.offsets_copied, slave.offsets_late = copy
        taken.brokers.append(slave)
        Memory.of(state, TARGET).learn(taken, is_deep)
        return slave.offsets_stand

    if before:
        assert seen(before) is None
    assert seen(None, 0.5, is_deep=False) is None
    assert seen(now, minute) is stands


def test_the_last_deep_snapshot_is_remembered(state):
    assert Memory.of(state, TARGET).deep_at is None
    Memory.of(state, TARGET).learn(snapshot(START, Minute(at=0)), is_deep=True)
    Memory.of(state, TARGET).learn(snapshot(START, Minute(at=1)))
    assert Memory.of(state, TARGET).deep_at == START


def test_a_full_disk_costs_a_collector_no_memory(state, tmp_path):
    """Snapshots may land in a bucket meanwhile, and deep ones must not become more frequent."""

    class Full(FileState):
        def write(self, name, text):
            raise OSError(ENOSPC, "No space left on device", name)

    Memory.of(state, TARGET).learn(snapshot(START, Minute(at=0)))
    warned = []
    kept = KeptState(Full(Home.of(tmp_path)), warned.append)
    for minute in (1, 2):
        Memory.of(kept, TARGET).learn(snapshot(START, Minute(at=minute)), is_deep=True)
        assert Memory.of(kept, "another").cluster is None
    memory = Memory.of(kept, TARGET)
    assert (memory.collected_at, memory.deep_turns) == (minutes(2), 2)
    (line,) = warned
    assert line.startswith("No space left on device (collector/")
    assert line.endswith("; going on with what this process remembers")


def test_deep_snapshots_are_counted_however_rare_they_are(state):
    """By the count each requests what the one before left out; by the clock, turns are skipped."""
    for at in (0, 10, 20):
        memory = Memory.of(state, TARGET)
        assert memory.deep_turns == at / 10
        memory.learn(snapshot(START, Minute(at=at)), is_deep=True)
        memory.learn(snapshot(START, Minute(at=at + 1)))


def test_a_failed_snapshot_changes_no_memory(state):
    memory = Memory.of(state, TARGET)
    memory.learn(snapshot(START, Minute(at=0)))
    failed = snapshot(START, Minute(at=1))
    failed.brokers, failed.cluster = [], "127.0.0.1:9876"
    memory.learn(failed, is_deep=True)
    assert (memory.cluster, memory.deep_at) == ("past", None)
    assert memory.remembered(minutes(1)) == ALL


def test_a_broker_that_moved_has_one_address(state):
    memory = Memory.of(state, TARGET)
    memory.learn(snapshot(START, Minute(at=0)))
    moved = snapshot(START, Minute(at=1))
    moved.brokers[0].address = "10.0.0.9:10911"
    memory.learn(moved)
    assert memory.remembered(minutes(1)) == (("broker-a", 0, "10.0.0.9:10911"), ALL[1])


def test_after_a_role_switch_each_address_is_remembered_once(state):
    """broker-a's slave at :2 was promoted to id 0 when its master at :1 died."""
    memory = Memory.of(state, TARGET)
    memory.learn(of_broker_a((0, "a:1", "V5_3_3"), (2, "a:2", "V5_3_3")))
    memory.learn(of_broker_a((0, "a:2", "V5_3_3"), (1, "a:1", None), minute=1))
    both = (("broker-a", 0, "a:2"), ("broker-a", 1, "a:1"))
    assert memory.remembered(minutes(1)) == both
    day = 24 * 60
    assert memory.remembered(minutes(day + 1)) == both[:1], "the dead one since it responded"


def test_an_old_address_stays_until_the_new_one_responds(state):
    memory = Memory.of(state, TARGET)
    memory.learn(of_broker_a((0, "a:1", "V5_3_3")))
    memory.learn(of_broker_a((0, "a:9", None), minute=1))
    assert memory.remembered(minutes(1)) == (("broker-a", 0, "a:1"),)
    memory.learn(of_broker_a((0, "a:9", "V5_3_3"), minute=2))
    assert memory.remembered(minutes(2)) == (("broker-a", 0, "a:9"),)


def of_broker_a(*members, minute=0):
    """A snapshot of the members (id, address, version) of one broker group."""
    broker_a = snapshot(START, Minute(at=minute))
    broker_a.brokers = [
        Broker(broker="broker-a", broker_id=broker_id, address=address, version=version)
        for broker_id, address, version in members
    ]
    return broker_a


def test_two_targets_have_two_memories(state):
    Memory.of(state, TARGET).learn(snapshot(START, Minute(at=0)))
    assert Memory.of(state, "127.0.0.1:9999").cluster is None


def test_many_name_servers_with_long_names_have_a_memory(state):
    host = "rocketmq-namesrv-{}.rocketmq-namesrv.middleware.svc.cluster.local:9876"
    target = ";".join(map(host.format, range(4)))
    Memory.of(state, target).learn(snapshot(START, Minute(at=0)))
    assert Memory.of(state, target).cluster == "past"
    assert Memory.of(state, target.replace("namesrv-3", "namesrv-4")).cluster is None


def missed(state, target, brokers, now):
    """Return the brokers expected in addition to those that a name server reports."""
    memory = Memory.of(state, target)
    groups = {
        broker: BrokerGroup(broker=broker, cluster="past", addresses={0: address})
        for broker, address in brokers.items()
    }
    info = ClusterInfo(groups, {"past": sorted(groups)})
    wanted = ClusterTarget(
        name_servers=("n:1",), remembered=memory.remembered(now), kin=memory.kin(now)
    )
    readings = expected_readings(info, "n:1", wanted, Problems())
    entries = ((it.broker, it.broker_id, it.address) for it in readings)
    return tuple(entry for entry in entries if entry[2] not in brokers.values())


def test_a_renamed_cluster_still_misses_former_brokers(state):
    Memory.of(state, TARGET).learn(snapshot(START, Minute(at=0)))
    alone = {"broker-a": BROKERS["broker-a"]}
    elsewhere = {"broker-a": "10.9.9.9:10911"}
    for target in ("localhost:9876", "orders"):
        assert missed(state, target, alone, minutes(1)) == ALL[1:]
        assert missed(state, target, alone, minutes(24 * 60 + 1)) == ()
        assert missed(state, target, elsewhere, minutes(1)) == ()
        assert missed(state, target, BROKERS, minutes(1)) == ()
        assert missed(state, target, alone | {"broker-b": "b:9"}, minutes(1)) == (), "it moved"
    assert missed(state, TARGET, alone, minutes(1)) == ALL[1:], "its own memory has it, once"


@pytest.mark.parametrize("text", ["", "{", "[]", '{"cluster": "x", "brokers": [{}]}', "null"])
def test_a_damaged_file_is_an_empty_memory(state, text):
    memory = Memory.of(state, TARGET)
    memory.learn(snapshot(START, Minute(at=0)))
    state.write(memory.name, text)
    assert Memory.of(state, TARGET).brokers == {}


def test_a_file_that_is_no_text_is_an_empty_memory(state, tmp_path):
    """A damaged memory of one cluster must not fail others, whose snapshots read it too."""
    Memory.of(state, TARGET).learn(snapshot(START, Minute(at=0)))
    (name,) = state.names("collector")
    (tmp_path / name).write_bytes(b"\xff\xfe")
    assert Memory.of(state, TARGET).cluster is None
    assert Memory.of(state, "other").kin(START) == ((),)
