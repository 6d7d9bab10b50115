"""The reader of fastjson bodies.

The fast path must never read something else than the tolerant parser. The tempting simplification,
replacing brace sequences in the whole body, corrupts strings that hold them: see the fuzz tests.
"""

import json
import sys

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tidemark.rocketmq.wire import fastjson
from tidemark.rocketmq.wire.fastjson import MAX_DEPTH, MAX_DIGITS, FastjsonError, loads


def tolerant(body):
    return fastjson.Parser(body).document()


def outcome(read, body):
    """The value with its types spelled out, or the error."""
    try:
        return repr(read(body))
    except FastjsonError as error:
        return error.position, error.reason


# Reading -----------------------------------------------------------------------------------------

SCALARS = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text()
    | st.sampled_from(["{1:2}", "}:{", "{{", "}}", '"', "\\", "$ref", "\u0001", ",5:"])
)
NAMES = st.text(min_size=1) | st.sampled_from(["topic", "queueId", "a{1:2}", "}:{", "\u0001"])
FLAT = st.dictionaries(NAMES, st.integers() | st.text(), max_size=3)


def freeze(members):
    return tuple(sorted(members.items()))


KEYS = NAMES | st.integers() | FLAT.map(freeze)
VALUES = st.recursive(
    SCALARS
    | st.dictionaries(st.integers(), st.integers(), max_size=4)
    | st.dictionaries(FLAT.map(freeze), FLAT, max_size=4),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(KEYS, inner, max_size=4),
    max_leaves=12,
).filter(lambda value: '"$ref":' not in repr(value))


def encode(value, space=""):
    """As fastjson writes it."""
    if isinstance(value, dict):
        members = (
            f"{encode_key(k, space)}{space}:{space}{encode(v, space)}" for k, v in value.items()
        )
        return "{" + space + f",{space}".join(members) + space + "}"
    if isinstance(value, list):
        return "[" + f"{space},".join(encode(item, space) for item in value) + space + "]"
    return json.dumps(value, ensure_ascii=False)


def encode_key(key, space):
    return encode(dict(key), space) if isinstance(key, tuple) else json.dumps(key)


def names_a_reference(value):
    if isinstance(value, dict):
        keys = [name for key in value for name in (dict(key) if isinstance(key, tuple) else [key])]
        return "$ref" in keys or any(names_a_reference(item) for item in value.values())
    return isinstance(value, list) and any(names_a_reference(item) for item in value)


@given(VALUES, st.sampled_from(["", " ", "\r\n\t"]))
def test_reads_back_what_fastjson_writes(value, space):
    body = encode(value, space).encode()
    if names_a_reference(value):
        with pytest.raises(FastjsonError):
            loads(body)
    else:
        assert repr(loads(body)) == repr(value)


@given(VALUES, st.sampled_from(["", "\n\t"]), st.data())
def test_both_paths_read_the_same_from_damaged_bodies(value, space, data):
    body = bytearray(encode(value, space).encode())
    for _ in range(data.draw(st.integers(0, 4))):
        place = data.draw(st.integers(0, len(body)))
        span = data.draw(st.integers(0, 3))
        body[place : place + span] = data.draw(
            st.sampled_from(
                [b"", b"{", b"}", b'"', b":", b",", b"1", b"}:{", b"}}", b"{{", b"\\", b"\n", b" "]
            )
        )
    assert outcome(loads, bytes(body)) == outcome(tolerant, bytes(body))


@given(st.binary(max_size=60) | st.text('{}[]":,10-.e\\u$ref \n', max_size=60).map(str.encode))
@example(b'{{"a":1}:{"b":"x}}y"}}')
@example(b'[{{"a":1}:{"b":"x}}y"}}]')
@example(b'{{"a":"x}:{y":1}:{"b":2}}')
@example(b'{"a":"{1:2}","b":{1:2}}')
@example(b'{"a":"{1:2}"}')
@example(b'{"a":"{ 1:2,\\n3:4 }","b":{ 1:2}}')
@example(b'{"a":"{\n1:2}"}')
@example(b"{\n1:2,\n}")
@example(b"{ 1 :2,3: 4}")
@example(b"{- 1:2}")
@example(b"{1:2\x0b}")
@example(b"{\xc2\xa01:2}")
@example(b"{1:23:4}")
@example(b"{1:2,}")
@example(b"{01:2}")
@example(b'{"\\u0001":[1,2]}')
@example(b'{{"a":1}:{"b":2},{"a":true}:{"b":3}}')
@example(b'{"a":{},"a":{1:2}}')
@example(b"\xef\xbb\xbf{}")
def test_any_bytes_are_read_or_refused_alike(body):
    assert outcome(loads, body) == outcome(tolerant, body)


def test_recorded_bodies_of_every_shape(version, recorded):
    for name in ("106_cluster_info", "21_topic_config_m", "43_consumer_offset_m"):
        body = recorded(version, f"{name}.body")
        assert loads(body) == tolerant(body)
    rows = loads(recorded(version, "202_topic_stats_m.body"))["offsetTable"]
    key = (("brokerName", "broker-a"), ("queueId", 3), ("topic", "lab_orders"))
    assert len(rows) == 8 and rows[key]["minOffset"] == 0
    running = loads(recorded(version, "307_running_g-stuck_m.body"))
    assert {dict(key)["topic"] for key in running["mqTable"]} == {"lab_orders", "%RETRY%g-stuck"}


def test_the_large_shapes_take_the_fast_path(version, recorded):
    for name in ("43_consumer_offset_m", "202_topic_stats_m", "317_broker_consume_stats_m"):
        body = recorded(version, f"{name}.body")
        assert fastjson._scan(body) == tolerant(body)


@pytest.mark.parametrize("release", ["4.9.7", "5.3.3", "5.5.0"])
def test_golden_bodies_of_the_real_classes(golden, release):
    bodies = golden[release]
    offsets = {"TopicA@g1": {0: 5, 1: 7, 10: 8}}
    assert loads(bodies["ConsumerOffsetManager.encode"].encode())["offsetTable"] == offsets
    assert loads(bodies["pretty"].encode())["offsetTable"] == offsets
    queue = (("brokerName", "broker-a"), ("queueId", 3), ("topic", "TopicA"))
    local = loads(bodies["LocalOffset pretty"].encode())["offsetTable"]
    assert local[queue] == 42 and len(local) == 2
    assert loads(bodies["ConsumeStats"].encode())["offsetTable"][queue]["brokerOffset"] == 100
    assert loads(bodies["BrokerStatsData"].encode())["statsHour"]["tps"] is None


def pretty(table, entry=""):
    """A file of offsets; every entry begins a line of its own where fastjson2 wrote it."""
    maps = (
        f'\n\t\t"{name}":{{' + ",".join(f"{entry}{q}:{at}" for q, at in offsets.items()) + "\n\t\t}"
        for name, offsets in table.items()
    )
    return ('{\n\t"offsetTable":{' + ",".join(maps) + '\n\t},\n\t"pullOffsetTable":{}\n}').encode()


@pytest.mark.parametrize(("release", "entry"), [("5.3.3", ""), ("5.5.0", "\n\t\t\t")])
def test_large_files_of_every_release_are_read(golden, release, entry):
    real = golden[release]["pretty"].encode()
    assert fastjson._scan(real) == tolerant(real)
    maps = pretty({"TopicA@g1": {0: 5, 1: 7, 10: 8}}, entry)[len('{\n\t"offsetTable":{') :]
    assert maps.partition(b"}")[0] in real  # the one written here is the same form
    table = {f"t{number}@g": {queue: 10**15 + queue for queue in range(8)} for number in range(9)}
    assert fastjson._scan(pretty(table, entry))["offsetTable"] == table
    table = {f"{name}{more}": table[name] for name in table for more in range(6000)}
    body = pretty(table, entry)
    assert len(body) > fastjson.SLOW_BYTES
    assert loads(body)["offsetTable"] == table


def test_numbers_keep_their_kind():
    big = 10**4000 + 1
    value = loads(b'{"a":9007199254740993,"b":1e5,"c":-0,"d":1.0,"e":%d,-3:4}' % big)
    assert value == {"a": 9007199254740993, "b": 1e5, "c": 0, "d": 1.0, "e": big, -3: 4}
    assert [type(value[name]) for name in "abcd"] == [int, float, int, float]
    assert list(loads(b'{0:1,"0":2}').items()) == [(0, 1), ("0", 2)]


def test_keys():
    assert loads(b'{{"b":1,"a":{"d":1,"c":2}}:1}') == {(("a", (("c", 2), ("d", 1))), ("b", 1)): 1}
    assert loads(b"{{}:{}}") == {(): {}}


# Refusing ----------------------------------------------------------------------------------------

REFUSED = {
    "nothing": b"",
    "truncated": b'{"a":1',
    "truncated map": b'{"offsetTable":{"t@g":{0:5,1:',
    "trailing garbage": b"{} x",
    "second document": b"{}{}",
    "reference": b'{"$ref":"$.a"}',
    "escaped reference": b'{"\\u0024ref":"$"}',
    "bad escape": b'"\\x41"',
    "half a surrogate pair": b'"\\ud83d"',
    "raw control character": b'"a\nb"',
    "invalid UTF-8": b'"\xff"',
    "overlong UTF-8": b'"\xc0\x80"',
    "NaN": b"[NaN]",
    "infinity": b"[-Infinity]",
    "number beyond float": b"[1e999]",
    "leading zero": b"[01]",
    "leading zero in a key": b"{00:1}",
    "plus": b"[+1]",
    "fraction key": b"{1.5:1}",
    "array key": b"{[1]:1}",
    "boolean key": b"{true:1}",
    "null key": b"{null:1}",
    "array in a key": b'{{"a":[1]}:1}',
    "integer name in a key": b"{{1:2}:3}",
    "equal names": b'{"a":1,"a":2}',
    "equal integer keys": b"{0:1,0:2}",
    "equal object keys": b'{{"a":1}:1,{"a":1}:2}',
    "equal names of maps": b'{"a":{1:2},"a":{1:2}}',
    "equal keys in a map of a map": b'{"a":{1:2,1:3}}',
    "keys that compare equal": b'{{"a":1}:1,{"a":true}:2}',
    "trailing comma": b'{"a":1,}',
    "trailing comma in a list": b"[1,]",
    "single quotes": b"{'a':1}",
    "too many digits": b"[" + b"9" * (MAX_DIGITS + 1) + b"]",
    "fraction with too many digits": b"[0." + b"9" * (MAX_DIGITS + 1) + b"]",
    "deep": b"[" * 100_000,
    "deep and closed": b"[" * (MAX_DEPTH + 1) + b"]" * (MAX_DEPTH + 1),
    "deep objects": b'{"a":' * 100_000,
    "deep keys": b"{" * 100_000,
}


@pytest.mark.parametrize("body", REFUSED.values(), ids=REFUSED)
def test_refused_with_position_and_reason(body):
    with pytest.raises(FastjsonError) as caught:
        loads(body)
    assert caught.value.reason and 0 <= caught.value.position <= len(body)
    assert outcome(tolerant, body) == (caught.value.position, caught.value.reason)


def test_depth_up_to_the_limit_is_read():
    body = b"[" * MAX_DEPTH + b"]" * MAX_DEPTH
    assert json.dumps(loads(body)).encode() == body
    body = b'{"a":' * (MAX_DEPTH - 1) + b"{1:2}" + b"}" * (MAX_DEPTH - 1)
    assert outcome(loads, body) == outcome(tolerant, body) != ()


def test_position_counts_bytes():
    with pytest.raises(FastjsonError, match="no ':' after a key at byte 12"):
        loads('{"ключ" 1}'.encode())


def test_the_digit_limit_ignores_python_settings():
    body = b"[" + b"9" * (MAX_DIGITS + 1) + b"]"
    before = sys.get_int_max_str_digits()
    sys.set_int_max_str_digits(0)
    try:
        with pytest.raises(FastjsonError):
            loads(body)
    finally:
        sys.set_int_max_str_digits(before)
