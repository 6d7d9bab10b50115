"""The mistakes people complain about in other monitors, replayed through one tick: none is made.

Each mistake is the story of one group, a raw snapshot a minute, on which the ready-made rules are
evaluated. docs/mistakes.md is the table of them.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tests.support.homes import ROOT, run
from tidemark.lake.clocks import HOUR, floor_hour
from tidemark.lake.landing import land
from tidemark.lake.tables import alerting, progress
from tidemark.rocketmq.records import (
    Broker,
    Client,
    ConsumerGroup,
    ConsumerOffset,
    Problem,
    QueueOffset,
    QueueTag,
    Snapshot,
    Subscription,
    Topic,
)

pytestmark = pytest.mark.spark

CLUSTER = "mistakes"
MINUTES = 75
NOT_COLLECTED = range(60, 65)
"""Minutes in which collection had stopped."""
UNREACHABLE = range(20, 23)
"""Minutes in which broker-b does not respond."""
TAG, CODE, ANOTHER = "a", 97, 98
"""A tag with its hash, and the hash of another one."""
TAGS_EVERY = timedelta(minutes=10)
"""How often tags are sampled."""


@dataclass(frozen=True, kw_only=True)
class State:
    """A group on its topic of one queue, at one minute.

    Attributes:
        written: next offset to be written.
        commit: next offset to consume.
        first: first offset stored.
        online: whether it has a member.
        broadcast: whether members keep their offsets themselves.
        newest: minute at which the last message was stored.
        share: how many of 100 messages have the tag that its members subscribe to; None when they
            subscribe to all.
    """

    written: int
    commit: int | None
    first: int = 0
    online: bool = True
    broadcast: bool = False
    newest: float | None = None
    share: int | None = None


Story = Callable[[int], State | None]


def idle(minute: int) -> State:
    """One message after fifty minutes of nothing, read within a minute."""
    return State(
        written=100 + (minute >= 50),
        commit=100 + (minute > 50),
        newest=50 if minute >= 50 else -600,
    )


def away(minute: int) -> State:
    """20,000 behind, on the broker that becomes unreachable."""
    return State(written=30_000 + 10 * minute, commit=10_000 + 10 * minute)


def recreated(minute: int) -> State:
    """Its topic is deleted and created again; for three minutes the commit is that of the old."""
    written = 5000 if minute < 30 else 10 * (minute - 30)
    return State(written=written, commit=5000 if minute < 33 else written)


def expired(minute: int) -> State:
    """A slow group; after forty minutes the broker deletes messages that it has not consumed."""
    return State(
        written=10_000 + 10 * minute, commit=8000 + minute, first=9000 if minute >= 40 else 0
    )


def dead(minute: int) -> State:
    """Its members die, messages keep coming."""
    written = 500 + 10 * minute
    return State(written=written, commit=min(written, 800), online=minute < 30)


def deleted(minute: int) -> State | None:
    """50,000 behind, then deleted."""
    return State(written=50_000 + minute, commit=minute) if minute < 30 else None


def broadcast(minute: int) -> State:
    """Each member reads everything; the broker knows no offset."""
    return State(written=90_000 + 100 * minute, commit=None, broadcast=True)


def swings(minute: int) -> State:
    """Above its threshold for four minutes, below for three, again and again."""
    lag = 11_000 if minute % 7 < 4 else 9_000
    return State(written=20_000 + 100 * minute, commit=20_000 + 100 * minute - lag)


def burst(minute: int) -> State:
    """Nothing for fifty minutes, then 9,000 messages at once, read within two minutes."""
    written = 1000 if minute < 50 else 10_000
    commit = 1000 if minute < 50 else min(written, 1000 + 4500 * (minute - 50))
    return State(written=written, commit=commit, newest=50 if minute >= 50 else -600)


def picky(minute: int) -> State:
    """20,000 positions behind for two minutes of production, of which 200 messages are its own."""
    written = 30_000 + 10_000 * minute
    return State(written=written, commit=written - 20_000, share=1)


def choosy(minute: int) -> State:
    """As far behind, and more than half of the messages are its own."""
    return replace(picky(minute), share=60)


STORIES: dict[str, Story] = {
    story.__name__: story
    for story in (
        *(idle, away, recreated, expired, dead, deleted, broadcast, swings, burst),
        *(picky, choosy),
    )
}


@pytest.fixture(scope="module")
def seen(warm_home):
    """Incidents and group rows of all stories, by the group's name."""
    start = floor_hour(datetime.now(UTC)) - 4 * HOUR
    for minute in set(range(MINUTES)) - set(NOT_COLLECTED):
        land(warm_home.home, _snapshot(start + timedelta(minutes=minute), minute))
    done = run(warm_home.home, ["tick", "--no-collect"])
    assert done.returncode == 0, done.stderr
    rows = {
        table: [row for row in warm_home.lake.read(table).to_pylist() if row["cluster"] == CLUSTER]
        for table in (alerting.INCIDENTS, progress.GROUPS)
    }
    assert len(rows[progress.GROUPS]) > 500
    return rows


def incidents(seen, name):
    """Return the fired incidents of a group: rule and state, in order of time.

    Those of objectives are left out: the home declares some that every group on a topic misses.
    """
    mine = [row for row in seen[alerting.INCIDENTS] if f"/{name}/" in row["subject"]]
    fired = [row for row in mine if row["fired_at"] is not None and row["kind"] != "burn_rate"]
    return [(row["rule"], row["state"]) for row in sorted(fired, key=lambda row: row["opened_at"])]


def groups(seen, name):
    mine = [row for row in seen[progress.GROUPS] if row["consumer_group"] == name]
    return sorted(mine, key=lambda row: row["observed_at"])


def test_one_message_on_an_idle_topic_raises_no_alarm(seen):
    assert incidents(seen, "idle") == []
    assert max(row["lag"] for row in groups(seen, "idle")) == 1
    assert max(row["delay_ms"] for row in groups(seen, "idle")) <= 60_000


def test_unknown_is_not_zero_and_resolves_nothing(seen):
    rows = groups(seen, "away")
    assert [row["lag"] for row in rows if not row["complete"]] == [None] * len(UNREACHABLE)
    assert {row["lag"] for row in rows if row["complete"]} == {20_000}
    assert ("lag-high", "FIRING") in incidents(seen, "away")
    assert [rule for rule, _ in incidents(seen, "away")].count("lag-high") == 1
    of_broker = [row for row in seen[alerting.INCIDENTS] if "broker-b" in row["subject"]]
    assert [(row["rule"], row["state"]) for row in of_broker] == [("broker-down", "RESOLVED")]


def test_a_topic_created_again_has_no_absurd_lag(seen):
    rows = groups(seen, "recreated")
    assert incidents(seen, "recreated") == []
    assert max(row["readable_lag"] or 0 for row in rows) == 0
    assert min(row["lag"] for row in rows) >= 0


def test_expired_messages_are_lost_and_not_56_years_late(seen):
    rows = groups(seen, "expired")
    assert ("messages-lost", "FIRING") in incidents(seen, "expired")
    assert {row["lost"] for row in rows[:40]} == {0}
    assert rows[40]["lost"] == 9000 - 8040
    assert rows[40]["readable_lag"] == 10_400 - 9000
    # Half an hour of messages is left, and our history of them is as long.
    assert max(row["delay_ms"] or 0 for row in rows) <= MINUTES * 60_000


def test_a_group_whose_members_all_died_is_still_there(seen):
    rows = groups(seen, "dead")
    assert len(rows) == MINUTES - len(NOT_COLLECTED)
    assert rows[-1]["lag"] == 500 + 10 * (MINUTES - 1) - 800
    assert rows[-1]["online"] is False
    assert ("nobody-online", "FIRING") in incidents(seen, "dead")


def test_a_group_that_was_deleted_alerts_no_more(seen):
    assert incidents(seen, "deleted") and {state for _, state in incidents(seen, "deleted")} == {
        "RESOLVED"
    }


def test_broadcast_is_no_lag_of_a_group(seen):
    assert incidents(seen, "broadcast") == []
    assert {row["lag"] for row in groups(seen, "broadcast")} == {None}


def test_a_gap_of_collection_resolves_no_incident(seen):
    """Five minutes without a snapshot resolve nothing."""
    resolved = [row["resolved_at"] for row in seen[alerting.INCIDENTS] if row["resolved_at"]]
    observed = {row["observed_at"] for row in seen[progress.GROUPS]}
    assert resolved and set(resolved) <= observed
    assert ("nobody-online", "FIRING") in incidents(seen, "dead")


def test_a_lag_around_its_threshold_is_one_incident(seen):
    assert [rule for rule, _ in incidents(seen, "swings")].count("lag-high") == 1


def test_messages_that_a_filter_leaves_out_are_no_lag(seen):
    rows = groups(seen, "picky")
    assert {row["readable_lag"] for row in rows} == {20_000}
    assert {row["filtered_lag"] for row in rows} == {200}
    assert incidents(seen, "picky") == []
    assert {row["filtered_lag"] for row in groups(seen, "choosy")} == {12_000}
    assert incidents(seen, "choosy") == [("filtered-lag-high", "FIRING")]


def test_a_burst_is_as_old_as_its_messages(seen):
    assert incidents(seen, "burst") == []
    rows = groups(seen, "burst")
    assert max(row["lag"] for row in rows) == 9000
    assert 0 < max(row["delay_ms"] for row in rows) <= 2 * 60_000


def test_the_table_names_a_test_of_each():
    table = (ROOT / "docs" / "mistakes.md").read_text()
    named = re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", table)
    assert len(named) >= 10
    for path, name in named:
        assert f"def {name}(" in Path(ROOT, path).read_text(), (path, name)


def _snapshot(at: datetime, minute: int) -> Snapshot:
    unreachable = "broker-b" if minute in UNREACHABLE else None
    made = Snapshot(
        cluster=CLUSTER,
        source="remote",
        observed_at=at,
        finished_at=at + timedelta(milliseconds=45),
        status="PARTIAL" if unreachable else "COMPLETE",
        brokers_expected=2,
        brokers_answered=1 if unreachable else 2,
        transport="plain",
    )
    for broker, address in (("broker-a", "10.0.0.1:10911"), ("broker-b", "10.0.0.2:10911")):
        if broker == unreachable:
            made.brokers.append(Broker(broker=broker, broker_id=0, address=address))
            made.problems.append(
                Problem(
                    endpoint=address,
                    operation="GET_ALL_CONSUMER_OFFSET",
                    code=None,
                    message="no answer",
                )
            )
        else:
            made.brokers.append(
                Broker(
                    broker=broker,
                    broker_id=0,
                    address=address,
                    version="V5_3_3",
                    disk_ratio=0.4,
                    retention_hours=72,
                )
            )
    for name, story in STORIES.items():
        broker = "broker-b" if name == "away" else "broker-a"
        state = story(minute)
        if state is not None:
            made.clients += _members(name, state)
            if broker != unreachable:
                _add_rows(made, broker, name, state, at - timedelta(minutes=minute))
    return made


def _add_rows(made: Snapshot, broker: str, name: str, state: State, start: datetime) -> None:
    newest = made.observed_at - timedelta(milliseconds=700)
    if state.newest is not None:
        newest = start + timedelta(minutes=state.newest, milliseconds=-700)
    made.topics.append(
        Topic(
            broker=broker,
            topic=name,
            read_queues=1,
            write_queues=1,
            perm=6,
            message_type="NORMAL",
            kind="normal",
        )
    )
    made.consumer_groups.append(
        ConsumerGroup(
            broker=broker,
            consumer_group=name,
            consume_enable=True,
            retry_max_times=16,
            which_broker_when_slow=1,
            consume_orderly=False,
            system=False,
        )
    )
    made.queue_offsets.append(
        QueueOffset(
            broker=broker,
            topic=name,
            queue_id=0,
            min_offset=state.first,
            max_offset=state.written,
            newest_stored_at=newest if state.written else None,
        )
    )
    if state.share is not None and (made.observed_at - start) % TAGS_EVERY == timedelta(0):
        codes = [CODE] * state.share + [ANOTHER] * (100 - state.share)
        made.queue_tags += [
            QueueTag(
                broker=broker,
                topic=name,
                queue_id=0,
                position=state.written - 100 + place,
                tags_code=code,
                physical_offset=None,
                size=None,
            )
            for place, code in enumerate(codes)
        ]
    if state.commit is not None:
        made.consumer_offsets.append(
            ConsumerOffset(
                broker=broker,
                consumer_group=name,
                topic=name,
                queue_id=0,
                client_id=None,
                consumer_offset=state.commit,
            )
        )


def _members(name: str, state: State) -> Iterator[Client]:
    if state.online:
        yield Client(
            consumer_group=name,
            client_id=f"10.0.1.1@{name}",
            client_address="10.0.1.1:40000",
            language="JAVA",
            version="V5_3_3",
            consume_type="CONSUME_PASSIVELY",
            message_model="BROADCASTING" if state.broadcast else "CLUSTERING",
            consume_from_where="CONSUME_FROM_LAST_OFFSET",
            subscriptions=[
                Subscription(topic=name, expression_type="TAG", expression="*", tags=[])
                if state.share is None
                else Subscription(topic=name, expression_type="TAG", expression=TAG, tags=[TAG])
            ],
            subscriptions_source="group",
        )
