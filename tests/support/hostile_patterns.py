"""Runs each regular expression that strangers' text reaches on texts that make a careless one slow.

Strangers are who sends requests, brokers and their clients, and whoever writes files that are read.

``python -m tests.support.hostile_patterns``: a line of JSON for each expression: its module, the
expression, and the processor time of its slowest text. A text repeats what a part of the
expression repeats, and ends with what fits nothing. Linear work takes milliseconds, work that
grows with the square takes many seconds.
"""

import ast
import importlib
import json
import pkgutil
import re
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from re import _constants as codes  # pyright: ignore
from re import _parser as parser  # pyright: ignore
from typing import Any

ROOT = Path(__file__).parents[2]
ROOMS = (
    "alerting",
    "board",
    "cli",
    "collection",
    "host",
    "lake",
    "live",
    "planning",
    "rocketmq",
    "settings",
)
LENGTH = 50_000
METHODS = ("search", "sub", "subn", "split", "findall", "finditer", "match", "fullmatch")
MEMBERS = {codes.CATEGORY_SPACE: " ", codes.CATEGORY_DIGIT: "1", codes.CATEGORY_WORD: "a",
           codes.CATEGORY_NOT_SPACE: "x", codes.CATEGORY_NOT_DIGIT: "x",
           codes.CATEGORY_NOT_WORD: "-"}  # fmt: skip


def expressions() -> Iterator[tuple[str, str | bytes, int, set[str]]]:
    """Yield module, expression, flags, and the methods by which it is used."""
    for module in list(sys.modules.values()):
        name, file = module.__name__, getattr(module, "__file__", None)
        if (
            name.split(".")[:1] != ["tidemark"]
            or name.split(".")[1:2] == []
            or name.split(".")[1] not in ROOMS
            or not file
        ):
            continue
        source = Path(file).read_text()
        for call in ast.walk(ast.parse(source)):
            match call:
                case ast.Call(
                    func=ast.Attribute(value=ast.Name(id="re"), attr=how),
                    args=[ast.Constant(value=text), *rest],
                ) if how in METHODS:
                    yield (
                        name,
                        text,
                        _flags([*rest, *(keyword.value for keyword in call.keywords)]),
                        {how},
                    )
        for variable, value in vars(module).items():
            used = set(re.findall(rf"\b{re.escape(variable)}\.(\w+)", source)) & set(METHODS)
            for pattern in _patterns(value):
                # One in a tuple has no name by which it is used.
                called = set(re.findall(rf"\.({'|'.join(METHODS)})\(", source)) - {"split"}
                yield name, pattern.pattern, pattern.flags, used or called or set(METHODS)


def _patterns(value: Any) -> Iterator[re.Pattern[Any]]:
    """Yield the expressions in a variable, or in tuples of one."""
    if isinstance(value, re.Pattern):
        yield value
    elif type(value) is tuple:
        for item in value:
            yield from _patterns(item)


def _flags(nodes: list[ast.expr]) -> int:
    names = [item.attr for node in nodes for item in ast.walk(node)
             if isinstance(item, ast.Attribute) and hasattr(re, item.attr)]  # fmt: skip
    flags = 0
    for name in names:
        value = getattr(re, name)
        flags |= int(value) if isinstance(value, re.RegexFlag) else 0
    return flags


def texts(expression: str, flags: int) -> Iterator[str]:
    """Yield texts that repeat what an expression repeats, behind what stands before it."""
    yield from _repeated(parser.parse(expression, flags).data, "")


def _repeated(items: list[Any], before: str) -> Iterator[str]:
    for operator, argument in items:
        if operator in (codes.MAX_REPEAT, codes.MIN_REPEAT, codes.POSSESSIVE_REPEAT):
            _, most, body = argument
            if most is codes.MAXREPEAT:
                one = _example(body.data) or "x"
                for text in {one, " ", "\n"}:
                    for end in ("\0", "\n\0", "x", ""):
                        yield before + text * (LENGTH // len(text)) + end
                yield (before + one) * (LENGTH // len(before + one))
            yield from _repeated(body.data, before)
        elif operator is codes.SUBPATTERN:
            yield from _repeated(argument[-1].data, before)
        elif operator is codes.BRANCH:
            for branch in argument[1]:
                yield from _repeated(branch.data, before)
        before += _example([(operator, argument)])


def _example(items: list[Any]) -> str:
    """Return a short text that fits."""
    text = ""
    for operator, argument in items:
        if operator is codes.LITERAL:
            text += chr(argument)
        elif operator in (codes.ANY, codes.NOT_LITERAL):
            text += "x" if argument != ord("x") else "y"
        elif operator is codes.IN:
            text += _member(argument)
        elif operator in (codes.MAX_REPEAT, codes.MIN_REPEAT, codes.POSSESSIVE_REPEAT):
            text += _example(argument[2].data) * max(1, min(argument[0], 100))
        elif operator is codes.SUBPATTERN:
            text += _example(argument[-1].data)
        elif operator is codes.ATOMIC_GROUP:
            text += _example(argument.data)
        elif operator is codes.BRANCH:
            text += _example(argument[1][0].data)
    return text


def _member(choices: list[Any]) -> str:
    is_negated = choices[0][0] is codes.NEGATE
    if is_negated:
        excluded = "".join(chr(value) for code, value in choices[1:] if code is codes.LITERAL)
        return next(text for text in 'x 1-\\"' if text not in excluded)
    code, value = choices[0]
    if code is codes.CATEGORY:
        return MEMBERS[value]
    return chr(value[0] if code is codes.RANGE else value)


def main() -> None:
    """Run them all."""
    for room in ROOMS:
        for module_info in pkgutil.walk_packages(
            [str(ROOT / "tidemark" / room)], f"tidemark.{room}."
        ):
            if "commands" not in module_info.name:
                importlib.import_module(module_info.name)
    done = set()
    for module, text, flags, methods in list(expressions()):
        if (key := (text, flags, *sorted(methods))) in done:
            continue
        done.add(key)
        given = text.decode("latin-1") if isinstance(text, bytes) else text
        sys.stdout.write(f"{module} {given!r}\n")
        sys.stdout.flush()
        longest = 0.0
        for attack in set(texts(given, flags)):
            subject: Any = attack.encode() if isinstance(text, bytes) else attack
            started = time.process_time()
            for method in methods:
                more = (type(subject)(),) if method in ("sub", "subn") else ()
                result = getattr(re.compile(text, flags), method)(*more, subject)
                sum(1 for _ in result) if method == "finditer" else None
            longest = max(longest, time.process_time() - started)
        sys.stdout.write(json.dumps([module, given, longest]) + "\n")


if __name__ == "__main__":
    main()
