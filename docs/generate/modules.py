"""The page of modules: the first docstring line of each, in a row."""

import ast
from collections.abc import Iterator
from pathlib import Path

from docs.generate.markdown import code, page, table

ROOT = Path(__file__).parents[2]

ROOMS = (
    "tidemark/model",
    "tidemark/rocketmq",
    "tidemark/settings",
    "tidemark/host",
    "tidemark/lake",
    "tidemark/planning",
    "tidemark/collection",
    "tidemark/live",
    "spark",
    "expectations",
    "tidemark/alerting",
    "assets",
    "tidemark/board",
    "orchestration",
    "tidemark/embedded",
    "tidemark/cli",
    "tidemark/lab",
    "bench",
)
"""Folders of the rooms in the order of a run; no room imports a later one, but the lab."""


def modules_page() -> str:
    """Return the page of all modules with their first lines."""
    parts = []
    for room in ROOMS:
        rows = [(code(name), line) for name, line in first_lines(room)]
        parts += [f"## {room.replace('/', '.')}", table(("module", "holds"), rows)]
    return page(
        "Modules",
        "A folder is a stage, a module is a table or a concept of the field. Read in a row, these "
        "lines explain the project.",
        *parts,
    )


def first_lines(room: str) -> Iterator[tuple[str, str]]:
    """Yield each module of a room with the first paragraph of its docstring."""
    for file in sorted((ROOT / room).rglob("*.py"), key=_order):
        text = ast.get_docstring(ast.parse(file.read_text())) or ""
        parts = file.relative_to(ROOT).with_suffix("").parts
        name = ".".join(part for part in parts if part != "__init__")
        yield name, " ".join(text.split("\n\n")[0].split())


def _order(file: Path) -> tuple[str, ...]:
    parts = file.with_suffix("").parts
    return tuple("" if part == "__init__" else part for part in parts)
