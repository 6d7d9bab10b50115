"""Code versions of assets: Dagster shows which hours were computed by other code than the present.

A version is the digest of sources, so nobody has to raise it and none is forgotten. A changed
comment changes it too, which costs a look; a change that is missed would hide wrong numbers.
"""

import hashlib
import inspect
import re
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from tidemark.lake.schema import Table

ROOMS = (
    *("spark", "expectations", "assets.rule_evaluation", "tidemark.planning", "tidemark.alerting"),
    *("tidemark.model", "tidemark.collection", "tidemark.rocketmq"),
    *("tidemark.lake.landing", "tidemark.lake.loading", "tidemark.lake.retention"),
)
"""Rooms and modules that decide about rows: what an asset uses of them is part of its version."""

SHARED = ("assets.reader", "tidemark.planning.run_plan")
"""Modules that decide which rows every asset reads; part of each version, without their imports."""

LEFT_OUT = ("spark.session", "tidemark.alerting.delivery")
"""Parts of these rooms that decide about no row: how Spark is reached, how people are notified."""

_IMPORT = re.compile(r"^\s*(?:from ([\w.]+) import|import ([\w.]+))", re.MULTILINE)


def code_version(declared: Table | str, *functions: Callable[..., Any]) -> str:
    """Return the code version of an asset.

    It changes with the declaration of its table, with the text of the functions, with every module
    of `ROOMS` that these use, directly or through another one, and with those of `SHARED`. It is
    the same in each process and on each host.

    Args:
        declared: the table, or the name of an asset that is none.
        functions: those that make its rows.
    """
    modules = _reached(module for function in functions for module in _used(function)).union(SHARED)
    parts = [
        repr(declared),
        *(inspect.getsource(function) for function in functions),
        *(_source(module) for module in sorted(modules)),
    ]
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:12]


def _used(function: Callable[..., Any]) -> Iterator[str]:
    """Yield the modules of what a function names, and its own."""
    yield function.__module__
    code, names = inspect.unwrap(function).__code__, inspect.unwrap(function).__globals__
    for name in code.co_names:
        used = names.get(name)
        yield getattr(used, "__module__", None) or getattr(used, "__name__", None) or ""


def _reached(modules: Iterable[str]) -> frozenset[str]:
    """Return those modules that are of `ROOMS`, and all that they import of these."""
    reached: set[str] = set()
    waiting = {module for module in modules if _decides(module)}
    while waiting:
        reached |= waiting
        waiting = {one for module in waiting for one in _imported(module)} - reached
    return frozenset(reached)


def _decides(module: str) -> bool:
    def is_in(rooms: Iterable[str]) -> bool:
        return any(module == room or module.startswith(f"{room}.") for room in rooms)

    return is_in(ROOMS) and not is_in(LEFT_OUT)


@cache
def _source(module: str) -> str:
    spec = find_spec(module)
    return Path(spec.origin).read_text() if spec and spec.origin else ""


@cache
def _imported(module: str) -> frozenset[str]:
    names = {of or plain for of, plain in _IMPORT.findall(_source(module))}
    return frozenset(name for name in names if _decides(name))
