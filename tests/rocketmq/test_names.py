import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidemark.rocketmq.names import (
    OffsetKey,
    client_version,
    dlq_topic,
    is_system_group,
    parse_offset_key,
    retry_topic,
    topic_kind,
    version_name,
    version_order,
)

GROUPS = {"g", "g_topic"}
TOPICS = {"T", "topic", "a_b"}


@pytest.mark.parametrize(
    ("topic", "kind"),
    [
        ("orders", "normal"),
        ("%RETRY%g", "retry"),
        ("%RETRY%unknown_group", "retry"),
        ("%RETRY%g_topic", "retry"),  # both a group and a POP retry topic: the plain reading wins
        ("%RETRY%g_T", "pop_retry"),
        ("%RETRY%g_a_b", "pop_retry"),
        ("%RETRY%g+T", "pop_retry"),
        ("%DLQ%g", "dlq"),
        ("%LMQ%inbox", "lmq"),
        ("TBW102", "system"),
        ("SCHEDULE_TOPIC_XXXX", "system"),
        ("rmq_sys_wheel_timer", "system"),
        ("broker-a", "system"),
        ("lab_REPLY_TOPIC", "system"),
        ("my_REPLY_TOPIC", "normal"),
    ],
)
def test_topic_kind(topic, kind):
    result = topic_kind(topic, groups=GROUPS, topics=TOPICS, deployment={"broker-a", "lab"})
    assert result.value == kind


def test_names_of_a_group():
    assert retry_topic("g") == "%RETRY%g" and dlq_topic("g") == "%DLQ%g"
    assert is_system_group("CID_RMQ_SYS_TRANS") and is_system_group("TOOLS_CONSUMER")
    assert not is_system_group("CID_ORDERS")


@pytest.mark.parametrize(
    ("key", "parsed"),
    [
        ("T@g", OffsetKey("T", "g")),
        ("%RETRY%g@g", OffsetKey("%RETRY%g", "g")),
        ("T@g@broadcast", OffsetKey("T", "g", broadcast=True)),
        ("T@g@else", None),
        ("T", None),
        ("@g", None),
        ("T@", None),
        ("a@b@c@broadcast", None),
    ],
)
def test_offset_keys(key, parsed):
    assert parse_offset_key(key) == parsed


@pytest.mark.parametrize("release", ["4.9.7", "5.3.3", "5.5.0"])
def test_every_ordinal_that_java_prints(golden, release):
    printed = re.findall(r"(V[45]_\d_\d)=(\d+)", golden[release]["MQVersion"])
    assert len(printed) > 100
    for name, ordinal in printed:
        assert version_name(int(ordinal)) == name
        assert version_name(int(ordinal) - 1) == name + "_SNAPSHOT"


def test_ordinals_outside():
    assert version_name(612) == version_name(9999) == "HIGHER_VERSION"
    assert version_name(5) == "V3"


@given(st.integers(212, 612), st.integers(212, 612))
def test_versions_order_as_their_ordinals(one, other):
    by_order = version_order(version_name(one)) < version_order(version_name(other))
    assert by_order == (one < other)


def test_other_languages_keep_their_own_number():
    assert client_version("JAVA", 479) == "V5_3_3"
    assert client_version("GO", 317) == "317"
    assert client_version("JAVA", None) is None
    assert (
        version_order(None) < version_order("317") < version_order("V3") < version_order("V4_0_0")
    )
