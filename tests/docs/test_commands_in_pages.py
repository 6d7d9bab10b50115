"""Commands, targets and columns that the pages name exist."""

import re
import shlex
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import duckdb
import pytest

from docs.generate.commands import commands, options
from tidemark.lake.tables import TABLES

ROOT = Path(__file__).parents[2]

PAGES = [
    *(ROOT / name for name in ("README.md", "README.zh-CN.md", "CONTRIBUTING.md")),
    *sorted((ROOT / "docs").rglob("*.md")),
]

OF_ALL = {"--debug", "--home", "--help"}
"""Options that precede the command."""


def lines_of_code(page: Path) -> Iterator[str]:
    """Yield the lines of shell blocks and the inline code of a page."""
    text = page.read_text()
    for block in re.findall(r"```sh\n(.*?)```", text, re.DOTALL):
        yield from block.splitlines()
    yield from re.findall(r"`([^`\n]+)`", re.sub(r"```.*?```", "", text, flags=re.DOTALL))


def tidemark_lines() -> list[tuple[str, str]]:
    entries = []
    for page in PAGES:
        for line in lines_of_code(page):
            match = re.match(r"(?:\.venv/bin/)?tidemark (.+)", line.split(" #")[0].strip())
            if match:
                entries.append((page.relative_to(ROOT).as_posix(), match[1]))
    return entries


@cache
def known_commands() -> dict[str, Any]:
    """Return every command by its path; building them takes longer than checking a line."""
    return dict(commands())


@pytest.mark.parametrize(("page", "line"), tidemark_lines())
def test_command_and_options_exist(page: str, line: str) -> None:
    words = shlex.split(line.replace("[", " ").replace("]", " "))
    while words and words[0] in OF_ALL:
        words.pop(0)
    if not words:  # an option alone: `tidemark --debug`
        return
    known = known_commands()
    path = next((p for p in (" ".join(words[:2]), words[0]) if p in known), None)
    if path is None:  # a group, named alone: `tidemark incidents`
        assert any(text.startswith(f"{words[0]} ") for text in known), f"{page}: tidemark {line}"
        assert len(words) == 1 or words[1].isupper(), f"{page}: tidemark {line}"
        return
    allowed = {"--help"}
    for option in options(known[path]):
        allowed |= {*option.opts, *option.secondary_opts}
    used = {word for word in words if word.startswith("--")}
    assert used <= allowed, f"{page}: tidemark {line}"


def shown() -> list[tuple[str, str, str]]:
    entries = []
    for page, line in tidemark_lines():
        words = shlex.split(line.replace("[", " ").replace("]", " "))
        if words[0] == "show" and len(words) > 1 and "." in words[1]:
            where = words[words.index("--where") + 1] if "--where" in words else "true"
            entries.append((page, words[1], where))
    return entries


@pytest.mark.parametrize(("page", "table", "where"), shown())
def test_condition_of_show_is_valid_for_its_table(page: str, table: str, where: str) -> None:
    rows = TABLES[table].arrow_schema().empty_table()
    with duckdb.connect() as connection:
        connection.register("rows", rows)
        connection.sql(f"SELECT * FROM rows WHERE {where}").fetchall()


def test_make_targets_exist() -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    named = {
        target
        for page in PAGES
        for line in lines_of_code(page)
        for target in re.findall(r"(?:^|\s)make ([a-z-]+)", line)
    }
    assert len(named) > 5
    assert named <= targets
