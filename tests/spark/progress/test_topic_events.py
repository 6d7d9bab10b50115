"""Events of topics that lost queues to read, on two observations."""

import pytest

from spark.progress.events import topic_events
from tests.support.plan_readers import reader_with
from tests.support.table_rows import frame, minute, snapshot_id
from tidemark.lake.tables import progress, raw
from tidemark.planning.observation_steps import Step

pytestmark = pytest.mark.spark


def happened(spark, read_queues, stored):
    """Events of a topic with these read queues, and messages by minute and queue id."""
    step = Step(
        snapshot_id=snapshot_id(1),
        observed_at=minute(1),
        cluster="lab",
        broker="broker-a",
        previous_snapshot_id=snapshot_id(0),
        previous_at=minute(0),
    )
    configured = [
        {"at": at, "topic": "orders", "read_queues": number, "write_queues": 4}
        for at, number in enumerate(read_queues)
        if number is not None
    ]
    written = [
        {"at": at, "topic": topic, "queue_id": queue, "min_offset": 10, "max_offset": 10 + number}
        for (at, queue), number in stored.items()
        for topic in ("orders", "payments")
    ]
    result = topic_events(
        frame(spark, raw.TOPICS, configured),
        frame(spark, raw.QUEUE_OFFSETS, written),
        reader_with(spark).steps([step]),
    )
    assert result.columns == list(progress.EVENTS.column_names)
    rows = result.toArrow().to_pylist()
    assert {(row["broker"], row["topic"], row["observed_at"]) for row in rows} <= {
        ("broker-a", "orders", minute(1))
    }
    return [(row["kind"], row["messages"], row["evidence"]) for row in rows]


BEFORE = {(0, queue): 90 for queue in range(4)}
SHRUNK = "read queues 2, before 4"


@pytest.mark.parametrize(
    ("read_queues", "stored", "expected"),
    [
        pytest.param((4, 2), BEFORE | {(1, 2): 95, (1, 3): 90}, ("SHRUNK", 185, SHRUNK), id="now"),
        pytest.param((4, 2), BEFORE | {(1, 2): 95}, ("SHRUNK", 185, SHRUNK), id="or as before"),
        pytest.param((4, 2), {(0, 0): 90}, ("SHRUNK", None, SHRUNK), id="queues not known"),
        pytest.param((4, 4), BEFORE, None, id="as many"),
        pytest.param((2, 4), BEFORE, None, id="more"),
        pytest.param((4, None), BEFORE, None, id="deleted"),
        pytest.param((None, 2), BEFORE, None, id="new"),
    ],
)
def test_a_topic_shrinks(spark, read_queues, stored, expected):
    assert happened(spark, read_queues, stored) == ([expected] if expected else [])
