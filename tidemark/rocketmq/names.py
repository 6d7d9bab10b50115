"""RocketMQ's naming rules: the meaning of names of topics, groups, offset keys and versions.

Sources: `TopicValidator`, `MixAll`, `KeyBuilder`, `ConsumerOffsetManager`, `MQVersion` of 4.9 to
5.5.
"""

import re
from collections.abc import Container
from enum import StrEnum
from functools import partial
from typing import NamedTuple

RETRY_PREFIX = "%RETRY%"
DLQ_PREFIX = "%DLQ%"
OWN_TOPICS = (RETRY_PREFIX, DLQ_PREFIX)
"""Prefixes of the topics that RocketMQ creates for a group."""

READ_PERMISSION, WRITE_PERMISSION = 4, 2
"""Bits of the permission of a topic (`PermName`)."""

LMQ_PREFIX = "%LMQ%"
LITE_PREFIX = "%LMQ%$"
"""Lite topics (5.5) are light queues named ``%LMQ%$<parent>$<lite topic>`` (`LiteUtil`)."""

LITE_SEPARATOR = "$"

LITE_MODEL = "LITE"
"""Message models of groups bound to a topic begin so: they consume its lite topics, not it."""

BROADCAST_SUFFIX = "broadcast"

CONNECTIONS = "GET_CONSUMER_CONNECTION_LIST "
"""Name of the request for online members in a problem, before the groups."""

SYSTEM_TOPICS = frozenset(
    {
        "TBW102",
        "SCHEDULE_TOPIC_XXXX",
        "BenchmarkTest",
        "RMQ_SYS_TRANS_HALF_TOPIC",
        "RMQ_SYS_TRACE_TOPIC",
        "RMQ_SYS_TRANS_OP_HALF_TOPIC",
        "RMQ_SYS_ROCKSDB_TRANS_HALF_TOPIC",
        "RMQ_SYS_ROCKSDB_TRANS_OP_HALF_TOPIC",
        "TRANS_CHECK_MAX_TIME_TOPIC",
        "SELF_TEST_TOPIC",
        "OFFSET_MOVED_EVENT",
        "CHECKPOINT_TOPIC",
        "DefaultHeartBeatSyncerTopic",
    }
)
SYSTEM_TOPIC_PREFIX = "rmq_sys_"

PROXY_TOPIC = "DefaultHeartBeatSyncerTopic"
"""Topic by which proxies in cluster mode share online members; brokers do not report these."""

SYSTEM_GROUPS = frozenset(
    {
        "DEFAULT_CONSUMER",
        "DEFAULT_PRODUCER",
        "TOOLS_CONSUMER",
        "SCHEDULE_CONSUMER",
        "FILTERSRV_CONSUMER",
        "__MONITOR_CONSUMER",
        "CLIENT_INNER_PRODUCER",
        "SELF_TEST_P_GROUP",
        "SELF_TEST_C_GROUP",
        "CID_ONS-HTTP-PROXY",
        "CID_ONSAPI_PERMISSION",
        "CID_ONSAPI_OWNER",
        "CID_ONSAPI_PULL",
        "CID_RMQ_SYS_TRANS",
        "CID_DefaultHeartBeatSyncerTopic",
    }
)
SYSTEM_GROUP_PREFIX = "CID_RMQ_SYS_"


class TopicKind(StrEnum):
    """The purpose of a topic; the values of ``raw.topics.kind``."""

    NORMAL = "normal"
    RETRY = "retry"
    DLQ = "dlq"
    POP_RETRY = "pop_retry"
    SYSTEM = "system"
    LMQ = "lmq"


class StatsName(StrEnum):
    """Names of brokers' counters that computations use; values of ``raw.broker_stats.stats_name``.

    A renewal is a change of a message's invisible time. `ChangeInvisibleTimeProcessor` counts it
    once as a checkpoint and once as an acknowledgement; `PopMessageProcessor` counts one checkpoint
    for each queue that a pop took messages of.
    """

    WRITTEN = "TOPIC_PUT_NUMS"
    SERVED = "GROUP_GET_NUMS"
    ACKNOWLEDGED = "GROUP_ACK_NUMS"
    CHECKPOINTS = "GROUP_CK_NUMS"


POP_COUNTERS = (StatsName.ACKNOWLEDGED, StatsName.CHECKPOINTS)
"""Counters of groups that pop; no other group has them."""


def topic_kind(
    topic: str,
    *,
    groups: Container[str] = (),
    topics: Container[str] = (),
    deployment: Container[str] = (),
) -> TopicKind:
    """Return the kind of a topic, from its name.

    Args:
        topic: the topic.
        groups: known consumer groups. A POP retry topic of the first naming
            (``%RETRY%<group>_<topic>``) resembles the retry topic of a group named ``g_topic``.
            Only the known names distinguish them, and the plain retry topic wins.
        topics: known topics, for the same purpose.
        deployment: names that are system topics of one deployment: those of its brokers and
            clusters, each of which is a topic too.
    """
    if topic.startswith(LMQ_PREFIX):
        return TopicKind.LMQ
    if topic.startswith(DLQ_PREFIX):
        return TopicKind.DLQ
    if topic.startswith(RETRY_PREFIX):
        rest = topic.removeprefix(RETRY_PREFIX)
        return TopicKind.POP_RETRY if _is_pop(rest, groups, topics) else TopicKind.RETRY
    if (
        topic in SYSTEM_TOPICS
        or topic.startswith(SYSTEM_TOPIC_PREFIX)
        or topic in deployment
        or (topic.endswith("_REPLY_TOPIC") and topic.removesuffix("_REPLY_TOPIC") in deployment)
    ):
        return TopicKind.SYSTEM
    return TopicKind.NORMAL


def is_lite_topic(topic: str) -> bool:
    """Return whether a topic is a lite topic, by the name of its light queue."""
    return topic.startswith(LITE_PREFIX)


def consumes_lite_topics(message_model: str | None) -> bool:
    """Return whether members of such a group consume lite topics of their subscriptions."""
    return (message_model or "").startswith(LITE_MODEL)


def names_of_lite_topic(topic: str) -> tuple[str, str] | None:
    """Return the parent and the lite topic that a light queue is named after; None for others."""
    parts = topic.split(LITE_SEPARATOR)
    if not is_lite_topic(topic) or len(parts) != 3 or not all(parts):
        return None
    return parts[1], parts[2]


def _is_pop(rest: str, groups: Container[str], topics: Container[str]) -> bool:
    if "+" in rest:  # second naming, 5.2+; no name holds a plus otherwise
        return True
    if rest in groups:
        return False
    cuts = (match.start() for match in re.finditer("_", rest))
    return any(rest[:cut] in groups and rest[cut + 1 :] in topics for cut in cuts)


def is_system_group(group: str) -> bool:
    """Return whether RocketMQ itself uses this consumer group."""
    return group in SYSTEM_GROUPS or group.startswith(SYSTEM_GROUP_PREFIX)


def retry_topic(group: str) -> str:
    """Return the topic where failed messages of a group wait."""
    return RETRY_PREFIX + group


def dlq_topic(group: str) -> str:
    """Return the topic that takes messages of a group after their last attempt."""
    return DLQ_PREFIX + group


class OffsetKey(NamedTuple):
    """A key of the broker's offset table.

    Attributes:
        topic: the topic.
        consumer_group: the group.
        broadcast: whether the offsets are the broker's shadow of a broadcasting group: the
            smallest pull offset of its online clients, from 5.1 on (`BroadcastOffsetManager`).
    """

    topic: str
    consumer_group: str
    broadcast: bool = False


def parse_offset_key(key: str) -> OffsetKey | None:
    """Parse ``topic@group`` or ``topic@group@broadcast``; None for other keys, as in Java."""
    topic, _, group = key.partition("@")
    if topic and group and "@" not in group:
        return _offset_key((topic, group, False))
    group, broadcast, suffix = group.partition("@")
    if topic and group and suffix == (BROADCAST_SUFFIX if broadcast else ""):
        return _offset_key((topic, group, bool(broadcast)))
    return None


_offset_key = partial(tuple.__new__, OffsetKey)  # its own constructor takes four times as long


_FIRST_4, _FIRST_5, _HIGHER = 213, 413, 612
_VERSION = re.compile(r"V(\d+)_(\d+)_(\d+)(_SNAPSHOT)?")


def version_name(ordinal: int) -> str:
    """Return ``V5_3_3`` for 479: the name of an `MQVersion` ordinal of a Java sender.

    From V4_0_0 on every release has an even place and its snapshot the place before. Ordinals below
    are irregular and give ``V3``. Ordinals from 612 on give ``HIGHER_VERSION``, as in Java.
    """
    if ordinal >= _HIGHER:
        return "HIGHER_VERSION"
    if ordinal < _FIRST_4 - 1:
        return "V3"
    release = ordinal + (ordinal - _FIRST_4) % 2
    major, place = (5, release - _FIRST_5) if release >= _FIRST_5 else (4, release - _FIRST_4)
    text = f"V{major}_{place // 20}_{place % 20 // 2}"
    return text if release == ordinal else text + "_SNAPSHOT"


def client_version(language: str | None, ordinal: int | None) -> str | None:
    """Return the version of a client as text.

    Only Java clients send an `MQVersion` ordinal. Go, C++, Python and others send a number of their
    own, often a constant. It stays a bare number, as a name would be false.
    """
    if ordinal is None:
        return None
    return version_name(ordinal) if language == "JAVA" else str(ordinal)


def version_order(version: str | None) -> tuple[int, int, int, int]:
    """Return the sort key of a version: unknown, bare numbers, ``V3``, snapshots, releases."""
    if version == "HIGHER_VERSION":
        return (9, 0, 0, 0)
    if version == "V3":
        return (3, 0, 0, 0)
    match = _VERSION.fullmatch(version or "")
    if match:
        major, minor, patch = (int(match[part]) for part in (1, 2, 3))
        return (major, minor, patch, 0 if match[4] else 1)
    return (0, 0, 0, int(version)) if version and version.isdecimal() else (-1, 0, 0, 0)
