"""Measured figures as a section of ``docs/benchmarks.md``, which belongs to one command each."""

import os
import platform
import statistics
from collections.abc import Sequence
from pathlib import Path

PAGE = Path(__file__).parent.parent / "docs" / "benchmarks.md"


def spread(values: Sequence[float], form: str = ".3f") -> str:
    """Median, and the least and the most where there are several."""
    middle = format(statistics.median(values), form)
    if len(values) == 1:
        return middle
    return f"{middle} ({min(values):{form}} to {max(values):{form}})"


def table(head: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """A Markdown table."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(map(str, line)) + " |" for line in lines)


def machine() -> str:
    """What the figures were measured on, in a few words."""
    return f"{os.cpu_count()} cores, {platform.system()}, Python {platform.python_version()}"


def write_section(name: str, text: str) -> None:
    """Replace one section of the page, or append it; the others stay as they are."""
    first, last = f"<!-- {name} -->", f"<!-- end of {name} -->"
    page = PAGE.read_text() if PAGE.exists() else "# Benchmarks\n"
    before, found, rest = page.partition(first)
    after = rest.partition(last)[2] if found else ""
    section = f"{first}\n{text.strip()}\n{last}"
    parts = [part.strip() for part in (before, section, after)]
    PAGE.write_text("\n\n".join(part for part in parts if part) + "\n")
