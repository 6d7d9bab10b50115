"""Diagnoses of snapshots that hold a part of a cluster; no request is needed for them."""

from dataclasses import replace

import pytest

from tests.support.planned_groups import snapshot
from tidemark.cli.commands.why import lines
from tidemark.live.diagnosis import Wish, diagnose
from tidemark.model.consumption import StackOutcome
from tidemark.model.snapshots import SnapshotStatus
from tidemark.rocketmq.records import Problem
from tidemark.rocketmq.snapshot.target import ClusterTarget

NOWHERE = ClusterTarget(name_servers=("127.0.0.1:1",))
DOWN = Problem(endpoint="10.0.0.2:10911", operation="GET_X", code=None, message="no response")


def test_a_broker_that_did_not_respond_leaves_nobody_offline():
    taken = snapshot()
    whole = diagnose(NOWHERE, taken, Wish(consumer_group="audit"))
    assert whole.problems == ()
    assert "  no member is online" in lines(whole, frames=False)
    taken.status, taken.problems = SnapshotStatus.PARTIAL, [DOWN]
    part = diagnose(NOWHERE, taken, Wish(consumer_group="audit"))
    assert part.problems == (DOWN.line,)
    shown = list(lines(part, frames=False))
    assert "  no member is online" not in shown and "  unknown" in shown
    assert f"unknown: {DOWN.line}" in shown


@pytest.mark.parametrize(("topic", "count"), [(None, 2), ("orders", 1), ("other", 0)])
def test_progress_that_members_keep_is_unknown(topic, count):
    taken = snapshot()
    rows = [replace(row, offset_store="local") for row in taken.consumer_offsets]
    taken.consumer_offsets = rows
    problems = diagnose(NOWHERE, taken, Wish(consumer_group="billing", topic=topic)).problems
    line = f"offsets that no broker keeps: {count}; the messages there are unknown"
    assert problems == ((line,) if count else ())


def test_no_member_is_requested_that_never_committed_a_queue_of_unknown_end():
    taken = snapshot("10.0.0.1")
    taken.consumer_offsets = [replace(it, consumer_offset=None) for it in taken.consumer_offsets]
    taken.queue_offsets = []
    clients = diagnose(NOWHERE, taken, Wish(consumer_group="billing")).clients
    assert [it.outcome for it in clients or ()] == [StackOutcome.WOULD_COMMIT]
