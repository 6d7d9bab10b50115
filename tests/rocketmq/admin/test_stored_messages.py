"""A stored message is decoded without its body, whatever the record holds."""

import struct
from dataclasses import asdict
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidemark.rocketmq.admin.stored_messages import LONGEST_VALUE, decode_message

BODY = b"card 4111-1111"
V4, V6 = bytes([10, 1, 2, 3]), bytes(15) + b"\x01"


def record(*, properties="", topic="T", body=BODY, is_v2=False, born=V4, stored=V4, times=0):
    """A record of the commit log at physical offset 900, in queue 3 at offset 7."""
    flag = (16 if len(born) == 16 else 0) | (32 if len(stored) == 16 else 0)
    rest = (
        born + struct.pack(">iq", 40982, 1_795_000_000_500) + stored + struct.pack(">i", 10911)
        + struct.pack(">iqi", times, 0, len(body)) + body
        + struct.pack(">H" if is_v2 else ">B", len(topic)) + topic.encode()
        + struct.pack(">H", len(properties.encode())) + properties.encode()
    )  # fmt: skip
    magic = -626843477 if is_v2 else -626843481
    head = struct.pack(
        ">iiiiiqqiq", 48 + len(rest), magic, 0, 3, 0, 7, 900, flag, 1_795_000_000_000
    )
    return head + rest


def properties(**values):
    return "".join(f"{name}\x01{value}\x02" for name, value in values.items())


@pytest.mark.parametrize("is_v2", [False, True])
@pytest.mark.parametrize(("born", "host"), [(V4, "10.1.2.3:40982"), (V6, "[::1]:40982")])
@pytest.mark.parametrize("stored", [V4, V6])
def test_what_identifies_a_message(is_v2, born, host, stored):
    values = properties(UNIQ_KEY="ID1", KEYS="order-5 order-6", TAGS="C", RETRY_TOPIC="orders")
    message = decode_message(
        record(properties=values, topic="%RETRY%g", is_v2=is_v2, born=born, stored=stored, times=2),
        900,
    )
    assert asdict(message) == {
        "topic": "%RETRY%g",
        "queue_id": 3,
        "queue_offset": 7,
        "msg_id": "ID1",
        "keys": "order-5 order-6",
        "tags": "C",
        "reconsume_times": 2,
        "origin_topic": "orders",
        "origin_msg_id": None,
        "born_host": host,
        "born_at": datetime.fromtimestamp(1_795_000_000, UTC),
        "stored_at": datetime.fromtimestamp(1_795_000_000.5, UTC),
        "body_bytes": len(BODY),
    }


def test_neither_the_body_nor_properties_of_users_are_kept():
    values = properties(KEYS="order-5", customer="Ann Smith", KEYS2="x")
    shown = str(asdict(decode_message(record(properties=values), 900)))
    assert "order-5" in shown and "4111" not in shown and "Ann" not in shown


def test_a_long_key_is_cut():
    message = decode_message(record(properties=properties(KEYS="k" * 5_000)), 900)
    assert message.keys == "k" * (LONGEST_VALUE - 1) + "…"


def test_another_record_is_refused():
    with pytest.raises(ValueError, match="no message begins there"):
        decode_message(record(), 901)
    with pytest.raises(ValueError, match="no message begins there"):
        decode_message(record() + b"more", 900)


@given(end=st.integers(0, len(record(properties="KEYS\x01a\x02")) - 1))
def test_a_record_that_is_cut_off_is_refused(end):
    whole = bytearray(record(properties="KEYS\x01a\x02"))
    part = whole[:end]
    part[:4] = struct.pack(">i", end)[: len(part)]
    with pytest.raises(ValueError):
        decode_message(bytes(part), 900)


@given(st.binary(max_size=200))
def test_bytes_of_any_kind_raise_only_value_errors(data):
    with pytest.raises(ValueError):
        decode_message(data, 0)
