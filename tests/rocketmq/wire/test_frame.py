"""Frames, compared with the output of the real encoder of three versions."""

import json
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidemark.rocketmq.wire.frame import (
    MAX_FRAME_BYTES,
    Frame,
    FrameError,
    decode_frame,
    encode_request,
    take_frames,
)

FIELDS = {"consumerGroup": "g1"}


@pytest.mark.parametrize("release", ["4.9.7", "5.3.3", "5.5.0"])
def test_requests_equal_those_of_java(golden, release):
    expected = bytes.fromhex(golden[release]["Cmd hex"])
    assert encode_request(208, 0, FIELDS, b"hello", language="JAVA", version=0) == expected


@pytest.mark.parametrize("release", ["4.9.7", "5.3.3", "5.5.0"])
@pytest.mark.parametrize("name", ["Cmd hex", "CmdR hex"])
def test_both_header_types_decode_alike(golden, release, name):
    buffer = bytearray.fromhex(golden[release][name])
    assert take_frames(buffer) == [
        Frame(
            code=208,
            opaque=0,
            flag=0,
            remark=None,
            fields=FIELDS,
            body=b"hello",
            version=0,
            language="JAVA",
        )
    ]
    assert not buffer


def test_recorded_headers(version, recorded):
    header = recorded(version, "99999_unknown_m.hdr")
    frame = decode_frame(struct.pack(">i", len(header)) + header)
    assert frame.code == 3 and frame.is_response and "99999" in (frame.remark or "")
    header = recorded(version, "14_query_offset_g-slow_m.hdr")
    assert decode_frame(struct.pack(">i", len(header)) + header).fields["offset"].isdigit()


@given(
    st.integers(0, 2**31 - 1),
    st.integers(0, 2**31 - 1),
    st.dictionaries(st.text(), st.text(), max_size=4),
    st.binary(max_size=40),
    st.lists(st.integers(1, 30), max_size=8),
)
def test_frames_survive_any_cutting(code, opaque, fields, body, cuts):
    stream = encode_request(code, opaque, fields, body) * 2
    buffer, entries = bytearray(), []
    for cut in cuts:
        buffer += stream[:cut]
        stream = stream[cut:]
        entries += take_frames(buffer)
    buffer += stream
    entries += take_frames(buffer)
    assert [(f.code, f.opaque, f.fields, f.body) for f in entries] == [
        (code, opaque, fields, body)
    ] * 2
    assert not buffer


@given(st.binary(max_size=80))
def test_any_bytes_are_a_frame_or_refused(content):
    try:
        assert isinstance(decode_frame(content), Frame)
    except FrameError as error:
        assert "\n" not in str(error)


@given(st.binary(max_size=60))
def test_any_binary_header_is_a_frame_or_refused(header):
    content = bytes([1]) + len(header).to_bytes(3, "big") + header
    try:
        assert decode_frame(content).body == b""
    except FrameError as error:
        assert "\n" not in str(error)


@pytest.mark.parametrize(
    "start",
    [
        b"HTTP/1.1 400 Bad Request",
        b"SSH-2.0-OpenSSH_9.2",
        b"\x15\x03\x03\x00\x02\x02F",
        struct.pack(">i", MAX_FRAME_BYTES + 1),
        struct.pack(">i", -1),
        struct.pack(">i", 3),
        struct.pack(">ii", 100, 97),
        struct.pack(">ii", 100, 2 << 24),
    ],
    ids=["http", "ssh", "tls alert", "too long", "negative", "too short", "header", "type"],
)
def test_invalid_lengths_are_refused_before_buffering(start):
    with pytest.raises(FrameError):
        take_frames(bytearray(start))


@pytest.mark.parametrize(
    "header",
    [
        [],
        {"flag": 1},
        {"code": "0"},
        {"code": True},
        {"code": 0, "remark": 5},
        {"code": 0, "extFields": []},
        {"code": 0, "opaque": "1"},
    ],
    ids=json.dumps,
)
def test_a_json_header_of_another_shape_is_refused(header):
    text = json.dumps(header).encode()
    with pytest.raises(FrameError):
        decode_frame(struct.pack(">i", len(text)) + text)
