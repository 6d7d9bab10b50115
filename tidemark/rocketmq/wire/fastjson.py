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

MAX_DEPTH = 100
"""Objects and arrays inside each other; real bodies stay below ten."""


MAX_DIGITS = 4300
"""Digits of one number: Python's own default limit, fixed here so that no setting changes it."""


class FastjsonError(ValueError):
    """A body that cannot be read.

    Attributes:
        reason: the syntax error.
        position: byte of the body where the parser noticed it.
    """

    def __init__(self, reason: str, position: int):
        super().__init__(f"{reason} at byte {position}")
        self.reason = reason
        self.position = position


_SPACE = re.compile(r"[ \t\n\r]*")


_STRING = re.compile(r'"[^"\\\x00-\x1f]*+(?:\\.[^"\\\x00-\x1f]*+)*+"')


_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*+)(\.[0-9]++)?([eE][+-]?[0-9]++)?")


_LITERALS = {"true": True, "false": False, "null": None}


_LITERAL = re.compile("true|false|null")


class Parser:
    """Recursive descent over one body, with a bound on the depth."""

    def __init__(self, body: bytes):
        try:
            self._text = body.decode()
        except UnicodeDecodeError as error:
            raise FastjsonError("invalid UTF-8", error.start) from None
        self._at = 0

    def document(self) -> Any:
        """Read the whole body.

        Raises:
            FastjsonError: the body is not one fastjson value.
        """
        try:
            value = self._value(1)
        except RecursionError:
            self._fail("nesting too deep")
        if self._peek():
            self._fail("more after the end")
        return value

    def _fail(self, reason: str, at: int | None = None) -> NoReturn:
        before = self._text[: self._at if at is None else at]
        raise FastjsonError(reason, len(before.encode())) from None

    def _peek(self) -> str:
        """Return the next character after white space; an empty string at the end."""
        match = _SPACE.match(self._text, self._at)
        self._at = match.end() if match else self._at
        return self._text[self._at : self._at + 1]

    def _value(self, depth: int) -> Any:
        first = self._peek()
        if first == '"':
            return self._string()
        if first in ("{", "[") and depth > MAX_DEPTH:
            self._fail("nesting too deep")
        if first == "{":
            return self._object(depth)
        if first == "[":
            return self._array(depth)
        literal = _LITERAL.match(self._text, self._at)
        if literal:
            self._at = literal.end()
            return _LITERALS[literal[0]]
        return self._number()

    def _string(self) -> str:
        match = _STRING.match(self._text, self._at)
        if not match:
            self._fail("broken or endless string")
        token = match[0]
        if "\\" not in token:
            self._at = match.end()
            return token[1:-1]
        try:
            value = json.loads(token)
            value.encode()
        except ValueError:
            self._fail("bad escape in the string")
        self._at = match.end()
        return value

    def _number(self) -> int | float:
        match = _NUMBER.match(self._text, self._at)
        if not match:
            self._fail(
                "no value" if self._at < len(self._text) else "end of input instead of a value"
            )
        token = match[0]
        if len(token.lstrip("-")) > MAX_DIGITS:
            self._fail("number too long")
        try:
            value = float(token) if match[1] or match[2] else int(token)
        except ValueError:  # a limit on digits set lower than ours
            self._fail("number too long")
        if isinstance(value, float) and math.isinf(value):
            self._fail("number too large")
        self._at = match.end()
        return value

    def _array(self, depth: int) -> list[Any]:
        self._at += 1
        items: list[Any] = []
        if self._peek() == "]":
            self._at += 1
            return items
        while True:
            items.append(self._value(depth + 1))
            if self._separator("]"):
                return items

    def _object(self, depth: int) -> dict[Any, Any]:
        self._at += 1
        members: dict[Any, Any] = {}
        if self._peek() == "}":
            self._at += 1
            return members
        while True:
            start = self._at
            key = self._key(depth + 1)
            if self._peek() != ":":
                self._fail("no ':' after a key")
            self._at += 1
            if key in members:  # object keys also where Python takes 1, 1.0 and true for one value
                self._fail("a key that is there already", start)
            members[key] = self._value(depth + 1)
            if self._separator("}"):
                return members
            self._peek()

    def _separator(self, end: str) -> bool:
        """Step over a comma or over the end; return whether it was the end."""
        text = self._peek()
        if text != end and text != ",":
            self._fail(f"neither ',' nor '{end}'" if text else "end of input")
        self._at += 1
        return text == end

    def _key(self, depth: int) -> str | int | tuple[Any, ...]:
        start, first = self._at, self._peek()
        if first == '"':
            name = self._string()
            if name == "$ref":
                self._fail("a $ref token, which stands for data that is not here", start)
            return name
        if first == "{":
            if depth > MAX_DEPTH:
                self._fail("nesting too deep")
            return self._frozen(self._object(depth), start)
        if first == "-" or first.isdigit():
            number = self._number()
            if isinstance(number, int):
                return number
        self._fail("a key that is no string, integer or object", start)

    def _frozen(self, members: dict[Any, Any], start: int) -> tuple[Any, ...]:
        """Return an object that is a key as a hashable tuple."""
        pairs = []
        for name, value in members.items():
            if not isinstance(name, str):
                self._fail("a key whose own keys are no strings", start)
            if isinstance(value, list):
                self._fail("a key that holds an array", start)
            pairs.append((name, self._frozen(value, start) if isinstance(value, dict) else value))
        return tuple(sorted(pairs, key=lambda pair: pair[0]))


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


def _table_lists(match: re.Match[bytes]) -> bytes:
    return b'{"\\u0002":' + match[0].translate(_TO_LISTS) + b"}"


def _integer_pairs(match: re.Match[bytes]) -> bytes:
    return b'{"\\u0001":[' + match[0][1:-1].replace(b":", b",") + b"]}"


def _object_pairs(match: re.Match[bytes]) -> bytes:
    return b'{"\\u0001":[' + match[0][1:-1].replace(b"}:{", b"},{") + b"]}"


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
    mapping = dict(zip(keys, values, strict=True))
    if len(mapping) != len(keys):
        raise _NotProvenError
    return mapping


def _object_of(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    row = dict(pairs)
    if len(row) != len(pairs):
        raise _NotProvenError
    return row


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
