"""Tables of offsets: msgspec reads the same as the parser of fastjson, or is not used."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tidemark.rocketmq.admin.responses import IntegerTable, loads_with_tables
from tidemark.rocketmq.wire.fastjson import FastjsonError, loads

NAMES = ("offsetTable", "pullOffsetTable")
ODD = ["", "a:b", "a,b", "a{b", "}a", "{", '":{', "$ref", "0", "<table>", "offsetTable", "ключ"]
KEYS = st.sampled_from(["t@g", "%RETRY%g@g", *ODD]) | st.text("tg@%_{}:,<>0 ", max_size=6)
NUMBERS = st.sampled_from([*range(-2, 20), 2**31 - 1, 2**63 - 1])
TABLES = st.dictionaries(KEYS, st.dictionaries(NUMBERS, NUMBERS, max_size=4), max_size=5)
MEMBERS = st.dictionaries(
    st.sampled_from([*NAMES, "dataVersion"]), TABLES | st.integers() | st.lists(KEYS, max_size=2)
)
DAMAGE = [b"", b"{", b"}", b'"', b":", b",", b"1", b"{}", b'""', b'{"', b'":{', b'},"', b" ", b"\\"]


def outcome(read, body):
    """The value with its types spelled out, or the error."""
    try:
        return repr(read(body))
    except FastjsonError as error:
        return error.position, error.reason


def same(body):
    return outcome(lambda it: loads_with_tables(it, NAMES), body) == outcome(loads, body)


def encode(value):
    """As fastjson writes it."""
    if isinstance(value, dict):
        return "{" + ",".join(f"{encode(k)}:{encode(v)}" for k, v in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(encode, value)) + "]"
    return str(value) if isinstance(value, int) else '"' + value.replace('"', '\\"') + '"'


@given(MEMBERS)
def test_bodies_are_read_alike(members):
    assert same(encode(members).encode())


@given(MEMBERS, st.data())
def test_damaged_bodies_are_read_or_refused_alike(members, data):
    body = bytearray(encode(members).encode())
    for _ in range(data.draw(st.integers(1, 4))):
        place, span = data.draw(st.integers(0, len(body))), data.draw(st.integers(0, 3))
        body[place : place + span] = data.draw(st.sampled_from(DAMAGE))
    assert same(bytes(body))


@given(st.text('{}{}""::,,01-tg@ .', max_size=24))
@example('a":{"0":5}')
@example('a":{0:5,"1":5}')
@example("a:{}")
@example('a:{"}')
@example('{"}:{}')
@example("a:{0:5}")
@example(':{"0:5}')
@example('a":{0:5},b":{0:5}')
@example('a":{0:5},b:{"0":5}')
@example('a":{0:5},{"b":{0:5}')
@example('a,":{0:5}')
@example('a:b":{0:5}')
@example('$ref":{0:5}')
@example('a":{0:1,0:2}')
@example('a":{0:1},"a":{0:1}')
@example('a":{0:1},"a":{}')
@example('a":{01:1}')
@example('a":{0:1.0}')
@example('a":{0:9223372036854775808}')
@example('a":{2147483648:1}')
@example('a":{ 0: 1 } , "b":{}')
def test_any_text_of_a_table_is_read_or_refused_alike(text):
    assert same(f'{{"offsetTable":{{"{text}}}}}'.encode())
    assert same(f'{{"offsetTable":{{"t@g":{{0:1}},"{text}}},"x":1}}'.encode())


@pytest.mark.parametrize(
    "body",
    [
        b'{"x":{"offsetTable":{"a":{0:1}}},"offsetTable":5}',
        b'{"x":{"offsetTable":{"a":{0:1}}},"offsetTable":"<table>"}',
        b'{"offsetTable":{"a":{0:1}},"offsetTable":{"a":{0:1}}}',
        b'{"offsetTable":{"a":{0:1}},"x":"<table>"}',
        b'{"offsetTable":{"a":{0:1}},"x":{0:1,0:2}}',
        b'[{"offsetTable":{"a":{0:1}}}]',
        b'"offsetTable":{"a":{0:1}}',
        b'{"offsetTable":{"a":{0:1}}',
    ],
)
def test_a_table_elsewhere_is_no_member(body):
    assert same(body)


def test_tables_that_brokers_send_are_taken_out(version, recorded):
    body = recorded(version, "43_consumer_offset_m.body")
    result = loads_with_tables(body, NAMES)
    assert type(result["offsetTable"]) is IntegerTable and result == loads(body)
    body = b'{"offsetTable":{"a@g":{},"b@g":{0:-1}},"pullOffsetTable":{}}'
    result = loads_with_tables(body, NAMES)
    assert type(result["offsetTable"]) is IntegerTable
    assert result == {"offsetTable": {"a@g": {}, "b@g": {0: -1}}, "pullOffsetTable": {}}


def test_numbers_beyond_their_bits_are_left_to_the_parser():
    for text in ("{2147483648:1}", "{1:9223372036854775808}"):
        result = loads_with_tables(f'{{"offsetTable":{{"t@g":{text}}}}}'.encode(), NAMES)
        assert type(result["offsetTable"]) is dict
