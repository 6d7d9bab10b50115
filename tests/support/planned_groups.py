"""A snapshot of a group whose owners of queues are planned."""

from datetime import UTC, datetime

from tidemark.rocketmq.records import (
    Client,
    ConsumerOffset,
    Snapshot,
    Subscription,
    Topic,
)

NOW = datetime(2026, 11, 19, 12, tzinfo=UTC)


def snapshot(*members: str, strategy: str | None = None, model: str = "CLUSTERING") -> Snapshot:
    """Group ``billing`` on ``orders``: four queues on broker-a, two on broker-b."""
    taken = Snapshot(cluster="lab", source="remote", observed_at=NOW, status="COMPLETE")
    taken.topics = [
        Topic(
            broker="broker-a",
            topic="orders",
            read_queues=4,
            write_queues=4,
            perm=6,
            message_type="NORMAL",
            kind="normal",
        ),
        Topic(
            broker="broker-b",
            topic="orders",
            read_queues=2,
            write_queues=2,
            perm=6,
            message_type="NORMAL",
            kind="normal",
        ),
        Topic(
            broker="broker-c",
            topic="orders",
            read_queues=8,
            write_queues=8,
            perm=2,
            message_type="NORMAL",
            kind="normal",
        ),
        Topic(
            broker="broker-a",
            topic="%RETRY%billing",
            read_queues=1,
            write_queues=1,
            perm=6,
            message_type=None,
            kind="retry",
        ),
    ]
    taken.consumer_offsets = [
        ConsumerOffset(
            broker="broker-a",
            consumer_group="billing",
            topic=topic,
            queue_id=0,
            client_id=None,
            consumer_offset=5,
        )
        for topic in ("orders", "%RETRY%billing")
    ]
    taken.clients = [
        Client(
            consumer_group="billing",
            client_id=client_id,
            client_address=f"{client_id}:4000",
            language="JAVA",
            version="V5_3_3",
            consume_type="CONSUME_PASSIVELY",
            message_model=model,
            consume_from_where="CONSUME_FROM_LAST_OFFSET",
            allocation_strategy=strategy,
            subscriptions=[
                Subscription(topic=topic, expression_type="TAG", expression="*", tags=[])
                for topic in ("orders", "%RETRY%billing")
            ],
        )
        for client_id in members
    ]
    return taken
