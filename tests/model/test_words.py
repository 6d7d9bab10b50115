"""Words of `tidemark.model` stand in no product module as text: a misspelt text matches nothing.

Docstrings may contain them. SQL may not: a quoted word inside a text counts as one.
"""

import ast
import importlib
import pkgutil
import re
import tomllib
from collections.abc import Iterator
from enum import StrEnum
from pathlib import Path

import pytest

from tidemark import lab, model

ROOT = Path(__file__).parents[2]
ROOMS = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"][
    "root_packages"
]
UNCHECKED = (
    ROOT / "bench",
    *(Path(package.__path__[0]) for package in (model, lab)),
)
"""No product, the words themselves, and a room that imports nothing of ours."""

FOREIGN = {
    ("admin/broker_reports.py", "pull"): "a thread pool of a broker",
    ("files/store_folder.py", "store"): "a folder of a broker",
    ("expectations/gx_suite.py", "critical"): "a severity of Great Expectations",
    ("expectations/gx_suite.py", "warning"): "a severity of Great Expectations",
    ("metrics/native.py", "pull"): "a label of RocketMQ's own exporter",
    ("metrics/native.py", "pop"): "a label of RocketMQ's own exporter",
    ("cli/commands/engine.py", "FAILED"): "a word of Ivy's log",
    ("delivery/messages.py", "resolved"): "a word of a sentence",
    ("delivery/templates.py", "resolved"): "a field of templates of people",
    ("commands/rules.py", "resolved"): "a field of a report",
}
"""Words of others, by the end of a module's path: their reasons."""


COLUMNS = {"acknowledged", "dropped"}
"""Names of columns that are words of the model, too: a text may mean the column."""


def words() -> set[str]:
    """Return the values of all enums of the package but those that are names of columns."""
    modules = [
        importlib.import_module(f"{model.__name__}.{module.name}")
        for module in pkgutil.iter_modules(model.__path__)
    ]
    enums = [
        value
        for module in modules
        for value in vars(module).values()
        if isinstance(value, type) and issubclass(value, StrEnum) and value is not StrEnum
    ]
    return {str(member) for enum in enums for member in enum} - COLUMNS


def texts(source: str) -> Iterator[tuple[int, str]]:
    """Yield the line and the value of every text of a module that is no docstring."""
    tree = ast.parse(source)
    docstrings = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        is_text = isinstance(node, ast.Constant) and isinstance(node.value, str)
        if is_text and id(node) not in docstrings:
            yield node.lineno, node.value


def literals(source: str) -> Iterator[tuple[int, str]]:
    """Yield the line and the word of every text that is a word of the model, or quotes one."""
    known = words()
    for line, text in texts(source):
        for word in {text, *re.findall(r"'(\w+)'", text)} & known:
            yield line, word


def product_modules() -> list[Path]:
    """Return the modules of all rooms that have to use the enums."""
    paths = (path for room in ROOMS for path in (ROOT / room).rglob("*.py"))
    return [path for path in paths if not any(path.is_relative_to(it) for it in UNCHECKED)]


@pytest.mark.slow
def test_no_module_repeats_a_word_of_the_model():
    repeated = [
        f"{path.relative_to(ROOT)}:{line}: {word}"
        for path in product_modules()
        for line, word in literals(path.read_text())
        if not any(path.as_posix().endswith(end) and word == its for end, its in FOREIGN)
    ]
    assert repeated == []


def test_texts_of_sql_and_of_formats_count():
    assert list(literals("A = 'LOSING'")) == [(1, "LOSING")]
    assert list(literals("A = f\"health = 'LOSING' AND {b}\"")) == [(1, "LOSING")]
    assert list(literals('"""LOSING"""\n\nA = "LOSING or not"')) == []


def test_every_exception_is_still_needed():
    needed = {
        (end, word)
        for end, word in FOREIGN
        for path in product_modules()
        if path.as_posix().endswith(end)
        and word in {literal for _, literal in literals(path.read_text())}
    }
    assert needed == set(FOREIGN)
