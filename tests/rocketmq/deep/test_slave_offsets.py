"""A slave's copy of the consumer offsets, compared with its master's."""

import pytest

from tidemark.rocketmq.admin.responses import ConsumerOffsetTable
from tidemark.rocketmq.deep.offsets import compare
from tidemark.rocketmq.names import OffsetKey
from tidemark.rocketmq.records import Broker, ConsumerOffset

COMMITTED = [
    ConsumerOffset(
        broker="broker-a",
        consumer_group="g",
        topic="T",
        queue_id=0,
        client_id=None,
        consumer_offset=100,
        offset_store="broker",
    ),
    ConsumerOffset(
        broker="broker-a",
        consumer_group="g",
        topic="T",
        queue_id=1,
        client_id=None,
        consumer_offset=50,
        offset_store="broker",
    ),
    ConsumerOffset(
        broker="broker-a",
        consumer_group="g",
        topic="T",
        queue_id=2,
        client_id=None,
        consumer_offset=None,
        offset_store="broker",
    ),
    ConsumerOffset(
        broker="broker-b",
        consumer_group="g",
        topic="T",
        queue_id=0,
        client_id=None,
        consumer_offset=7000,
        offset_store="broker",
    ),
    ConsumerOffset(
        broker="broker-a",
        consumer_group="h",
        topic="T",
        queue_id=0,
        client_id="client",
        consumer_offset=900,
        offset_store="client_file",
    ),
]


@pytest.mark.parametrize(
    ("copied", "behind", "missing", "late"),
    [
        ({0: 100, 1: 50}, 0, 0, 0),
        ({0: 90, 1: 55}, 10, 0, 1),  # the copy was read later: ahead is not behind
        ({0: 100}, 50, 1, 0),
        ({}, 150, 2, 0),  # a copy that never came
        ({0: 0, 1: 40}, 110, 0, 2),
    ],
)
def test_how_far_a_copy_is_behind(copied, behind, missing, late):
    slave = Broker(broker="broker-a", broker_id=1, address="a:2")
    compare(slave, ConsumerOffsetTable({OffsetKey("T", "g"): copied}, None), COMMITTED)
    assert (slave.offsets_behind, slave.offsets_missing) == (behind, missing)
    assert (slave.offsets_late, slave.offsets_copied) == (late, sum(copied.values()))
