"""Read the JSON dialect of fastjson, which extends standard JSON.

Broker and name server bodies (4.9 to 5.5) differ from the standard in two ways: integer keys are
not quoted (``{0:5,1:7}``), and a key can be an object (``{{"queueId":3,"topic":"T"}:{...}}``).

`loads` first rewrites the shapes of nearly every large body into standard JSON at byte level: maps
from integer to integer, maps from name to those, maps from flat object to flat object. The C
scanner of the standard library reads the result. Where `loads` cannot prove that this gives the
same value, the tolerant parser (`fastjson_parser`) decides. Both read the same language; a test
proves it.
"""

import json
import math
import re
import sys
from typing import Any, NoReturn

from rocketmq.wire.fastjson_parser import MAX_DEPTH, MAX_DIGITS, FastjsonError, Parser

SLOW_BYTES = 1024 * 1024
"""Largest body for the tolerant parser, which reads two to four megabytes a second: no response may
delay a snapshot by more than half a second. Bodies that brokers write take the fast path, whatever
their size."""


def loads(body: bytes) -> Any:
    """Read one fastjson body.

    Integers are exact ``int`` of any size, numbers with a fraction or an exponent ``float``. An
    integer key stays ``int``; an object key becomes a tuple of its ``(name, value)`` pairs sorted
    by name, objects inside it likewise.

    Raises:
        FastjsonError: for all other input: truncated, trailing bytes, a ``$ref`` key (it refers to
            an object elsewhere and is no data), a key that is no string, integer or object,
            equal keys in one object (no Java map writes them, and the valid value is unknown),
            invalid UTF-8, control characters and half surrogate pairs in strings, numbers that are
            not finite or longer than `MAX_DIGITS`, nesting beyond `MAX_DEPTH`, more than
            `SLOW_BYTES` in a form that brokers do not send.
    """
    try:
        return _scan(body)
    except (ValueError, TypeError, RecursionError):
        if len(body) > SLOW_BYTES:
            raise FastjsonError(f"a body too large for its form ({len(body)} bytes)", 0) from None
        return Parser(body).document()


# The fast path -----------------------------------------------------------------------------------

_GAP = rb"[ \t\n\r]*+"  # in files: fastjson breaks the line before the brace, fastjson2 everywhere
_ENTRY = _GAP + rb"-?\d++:-?\d++"
_INTEGERS = rb"\{" + _ENTRY + rb"(?:," + _ENTRY + rb")*+" + _GAP + rb"\}"
_INTEGER_MAP = re.compile(_INTEGERS)
_NAMED = rb'"[^"\\{}\[\]:,]*+":' + _INTEGERS
_INTEGER_TABLE = re.compile(rb"\{" + _NAMED + rb"(?:," + _NAMED + rb")*+\}")
_FLAT = rb"\{[^{}\[\]]*+\}"
_OBJECT_MAP = re.compile(
    rb"\{" + _FLAT + rb":" + _FLAT + rb"(?:," + _FLAT + rb":" + _FLAT + rb")*+\}"
)
_MAP, _TABLE = "\x01", "\x02"
_TO_LISTS = bytes.maketrans(b"{:}", b"[,]")


class _NotProvenError(ValueError):
    """The fast path cannot prove its result."""


def _scan(body: bytes) -> Any:
    r"""Read a body through the C scanner; raise where the result is not provably the same.

    A map becomes ``{"\u0001":[key,value,key,value]}``, a map of maps ``{"\u0002":[name,[key,value],
    name,[key,value]]}``. No other input can give those names: the body contains no ``\u``, and
    strict JSON has no raw control character in a string. A rewrite may hit text inside a string;
    the string then contains a brace, and the braces outnumber the objects.
    """
    if b"\\u" in body or b'"$ref"' in body:
        raise _NotProvenError
    if not 0 < sys.get_int_max_str_digits() <= MAX_DIGITS:
        raise _NotProvenError
    text, maps = _INTEGER_TABLE.subn(_table_lists, body)
    text, more = _INTEGER_MAP.subn(_integer_pairs, text)
    maps += more
    if b"{{" in text:
        text, more = _OBJECT_MAP.subn(_object_pairs, text)
        maps += more
    value, objects = _restore(_DECODER.decode(text.decode()), 1)
    if maps and not objects == text.count(b"{") == text.count(b"}"):
        raise _NotProvenError
    return value


def _table_lists(found: re.Match[bytes]) -> bytes:
    return b'{"\\u0002":' + found[0].translate(_TO_LISTS) + b"}"


def _integer_pairs(found: re.Match[bytes]) -> bytes:
    return b'{"\\u0001":[' + found[0][1:-1].replace(b":", b",") + b"]}"


def _object_pairs(found: re.Match[bytes]) -> bytes:
    return b'{"\\u0001":[' + found[0][1:-1].replace(b"}:{", b"},{") + b"]}"


def _restore(node: Any, depth: int) -> tuple[Any, int]:
    """Turn lists of pairs back into maps; return the value and the number of objects in it."""
    if depth > MAX_DEPTH:
        raise _NotProvenError
    objects = 0
    if type(node) is dict:
        objects = 1
        if _MAP in node:
            return _map_of(node[_MAP], depth)
        if _TABLE in node:
            return _table_of(node[_TABLE], depth)
        entries = node.items()
    elif type(node) is list:
        entries = enumerate(node)
    else:
        return node, 0
    for key, value in entries:
        if type(value) is dict or type(value) is list:
            node[key], inside = _restore(value, depth + 1)
            objects += inside
    return node, objects


def _map_of(pairs: list[Any], depth: int) -> tuple[dict[Any, Any], int]:
    keys, values = pairs[::2], pairs[1::2]
    if type(keys[0]) is int:
        return _distinct(keys, values), 1
    if depth == MAX_DEPTH:
        raise _NotProvenError
    return _distinct([tuple(sorted(key.items())) for key in keys], values), 1 + len(pairs)


def _table_of(pairs: list[Any], depth: int) -> tuple[dict[Any, Any], int]:
    if depth == MAX_DEPTH:
        raise _NotProvenError
    entries = list(map(iter, pairs[1::2]))
    maps = list(map(dict, map(zip, entries, entries)))  # thousands at once, in half the time
    if 2 * sum(map(len, maps)) != sum(map(len, pairs[1::2])):
        raise _NotProvenError
    return _distinct(pairs[::2], maps), 1


def _distinct(keys: list[Any], values: list[Any]) -> dict[Any, Any]:
    found = dict(zip(keys, values, strict=True))
    if len(found) != len(keys):
        raise _NotProvenError
    return found


def _object_of(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise _NotProvenError
    return found


def _finite(text: str) -> float:
    value = float(text)
    if len(text.lstrip("-")) > MAX_DIGITS or math.isinf(value):
        raise _NotProvenError
    return value


def _no_constant(name: str) -> NoReturn:
    raise _NotProvenError


_DECODER = json.JSONDecoder(
    parse_float=_finite, parse_constant=_no_constant, object_pairs_hook=_object_of
)


# The tolerant parser -----------------------------------------------------------------------------
