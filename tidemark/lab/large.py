"""The configuration of a cluster as large as a company's, as brokers load it at their start.

Topics, groups and progress are files of a broker's store (`TopicConfigManager`,
`SubscriptionGroupManager`, `ConsumerOffsetManager`), read once when it starts; a request to
create them one by one takes minutes, as it writes and registers all of them each time. Messages are
sent to it, so that every queue has offsets and store times of its own.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product

from tidemark.rocketmq.names import retry_topic
from tidemark.rocketmq.wire.frame import encode_request

SEND_MESSAGE, HEART_BEAT = 10, 34
"""Request codes that only a lab may send; the client of `rocketmq` refuses them."""


@dataclass(slots=True, frozen=True, kw_only=True)
class Large:
    """Size of a large cluster, of which every broker has all topics and groups.

    Attributes:
        topics: topics, in addition to one retry topic per group.
        queues: queues of each topic.
        groups: consumer groups, none of them online.
        topics_per_group: topics each group has progress on.
        messages: messages in each queue.
        behind: one group in so many is behind; the others are at the end of all their queues.
    """

    topics: int = 400
    queues: int = 8
    groups: int = 300
    topics_per_group: int = 4
    messages: int = 5
    behind: int = 1

    @property
    def topic_names(self) -> list[str]:
        """The topics that hold messages."""
        return [f"large_{number:04d}" for number in range(self.topics)]

    @property
    def group_names(self) -> list[str]:
        """The consumer groups."""
        return [f"g-large-{number:04d}" for number in range(self.groups)]

    def progress(self) -> Iterator[tuple[str, str, dict[int, int]]]:
        """(topic, group, next offset by queue id); one queue in twenty was never committed."""
        names = self.topic_names
        for number, group in enumerate(self.group_names):
            for place in range(self.topics_per_group):
                first = (number * self.topics_per_group + place) * self.queues
                offsets = {
                    queue_id: self.messages
                    if number % self.behind
                    else (first + queue_id) % (self.messages + 1)
                    for queue_id in range(self.queues)
                    if (first + queue_id) % 20 or number % self.behind
                }
                topic = names[(number * self.topics_per_group + place) % self.topics]
                yield topic, group, offsets

    def files(self) -> dict[str, str]:
        """Return the files that a broker loads: path below its folder in a lab -> text."""
        topics = dict.fromkeys(self.topic_names, self.queues)
        topics |= {retry_topic(group): 1 for group in self.group_names}
        progress = {f"{topic}@{group}": offsets for topic, group, offsets in self.progress()}
        tables = {
            "topics": {"topicConfigTable": {it: _topic(it, n) for it, n in topics.items()}},
            "subscriptionGroup": {
                "subscriptionGroupTable": {group: _group(group) for group in self.group_names}
            },
            "consumerOffset": {"offsetTable": progress},
        }
        return {
            f"store/config/{name}.json": json.dumps({**table, "dataVersion": _VERSION})
            for name, table in tables.items()
        }

    def heartbeat(self) -> bytes:
        """Return the frame by which one client joins every group while its connection is open."""
        topics: dict[str, list[str]] = {}
        for topic, group, _ in self.progress():
            topics.setdefault(group, [retry_topic(group)]).append(topic)
        members = [
            {
                "groupName": group,
                "consumeType": "CONSUME_PASSIVELY",
                "messageModel": "CLUSTERING",
                "consumeFromWhere": "CONSUME_FROM_LAST_OFFSET",
                "subscriptionDataSet": [
                    {"topic": topic, "subString": "*", "subVersion": 1, "expressionType": "TAG"}
                    for topic in own
                ],
            }
            for group, own in topics.items()
        ]
        body = {"clientID": "127.0.0.1@large", "producerDataSet": [], "consumerDataSet": members}
        return encode_request(HEART_BEAT, 0, {}, json.dumps(body).encode())

    def sends(self) -> Iterator[bytes]:
        """Return the frames that put the messages into one broker's queues."""
        queues = product(self.topic_names, range(self.queues), range(self.messages))
        for opaque, (topic, queue_id, _) in enumerate(queues):
            fields = {
                "producerGroup": "large",
                "topic": topic,
                "defaultTopic": "TBW102",
                "defaultTopicQueueNums": str(self.queues),
                "queueId": str(queue_id),
                "sysFlag": "0",
                "bornTimestamp": "0",
                "flag": "0",
            }
            yield encode_request(SEND_MESSAGE, opaque, fields, b"m")


_VERSION = {"counter": 1, "stateVersion": 0, "timestamp": 1}


def _topic(topic: str, queues: int) -> dict[str, object]:
    return {
        "order": False,
        "perm": 6,
        "readQueueNums": queues,
        "topicFilterType": "SINGLE_TAG",
        "topicName": topic,
        "topicSysFlag": 0,
        "writeQueueNums": queues,
    }


def _group(group: str) -> dict[str, object]:
    return {
        "brokerId": 0,
        "consumeBroadcastEnable": True,
        "consumeEnable": True,
        "consumeFromMinEnable": True,
        "groupName": group,
        "notifyConsumerIdsChangedEnable": True,
        "retryMaxTimes": 16,
        "retryQueueNums": 1,
        "whichBrokerWhenConsumeSlowly": 1,
    }
