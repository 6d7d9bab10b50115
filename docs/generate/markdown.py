"""Markdown tables and pages, as the generators of the reference write them."""

from collections.abc import Iterable, Sequence


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a Markdown table; cells may hold Markdown, line breaks and bars."""
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join(f"| {' | '.join(map(_cell, line))} |" for line in lines)


def page(title: str, introduction: str, *parts: str) -> str:
    """Return a page: title, introduction and parts, separated by empty lines."""
    return "\n\n".join([f"# {title}", introduction, *parts]) + "\n"


def code(text: object) -> str:
    """Return a text as inline code, nothing for an empty one."""
    return f"`{text}`" if text not in (None, "") else ""


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")
