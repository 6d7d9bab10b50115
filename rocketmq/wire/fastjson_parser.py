"""The tolerant parser: one fastjson body by recursive descent, with a bound on the depth."""

import json
import math
import re
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
        found = _SPACE.match(self._text, self._at)
        self._at = found.end() if found else self._at
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
        found = _STRING.match(self._text, self._at)
        if not found:
            self._fail("broken or endless string")
        token = found[0]
        if "\\" not in token:
            self._at = found.end()
            return token[1:-1]
        try:
            value = json.loads(token)
            value.encode()
        except ValueError:
            self._fail("bad escape in the string")
        self._at = found.end()
        return value

    def _number(self) -> int | float:
        found = _NUMBER.match(self._text, self._at)
        if not found:
            self._fail(
                "no value" if self._at < len(self._text) else "end of input instead of a value"
            )
        token = found[0]
        if len(token.lstrip("-")) > MAX_DIGITS:
            self._fail("number too long")
        try:
            value = float(token) if found[1] or found[2] else int(token)
        except ValueError:  # a limit on digits set lower than ours
            self._fail("number too long")
        if isinstance(value, float) and math.isinf(value):
            self._fail("number too large")
        self._at = found.end()
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
        found = self._peek()
        if found != end and found != ",":
            self._fail(f"neither ',' nor '{end}'" if found else "end of input")
        self._at += 1
        return found == end

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
