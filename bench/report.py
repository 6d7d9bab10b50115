"""Measured figures as a section of ``docs/benchmarks.md``, which belongs to one command each."""

import os
import platform
import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path

import matplotlib
from matplotlib.figure import Figure

PAGE = Path(__file__).parent.parent / "docs" / "benchmarks.md"
PICTURES = PAGE.parent / "pictures"

matplotlib.rcParams["svg.hashsalt"] = "tidemark"  # the same figures give the same file


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
    """Return the machine of the figures in a few words: cores, system, Python."""
    return f"{os.cpu_count()} cores, {platform.system()}, Python {platform.python_version()}"


def write_section(name: str, text: str) -> None:
    """Replace one section of the page, or append it; the others stay as they are."""
    first, last = f"<!-- {name} -->", f"<!-- end of {name} -->"
    page = PAGE.read_text() if PAGE.exists() else "# Benchmarks\n"
    before, item, rest = page.partition(first)
    after = rest.partition(last)[2] if item else ""
    section = f"{first}\n{text.strip()}\n{last}"
    parts = [part.strip() for part in (before, section, after)]
    PAGE.write_text("\n\n".join(part for part in parts if part) + "\n")


Points = Sequence[tuple[float, float]]


def plot(
    name: str, title: str, axes: tuple[str, str], lines: Mapping[str, Points], scale: str = "linear"
) -> str:
    """Draw lines into a picture beside the page.

    Args:
        name: of the file, and of no other plot.
        title: the title of the picture.
        axes: the names of x and y, with units.
        lines: points by the name of the line.
        scale: of both axes, ``linear`` or ``log``.

    Returns:
        The picture in Markdown.
    """
    figure = Figure(figsize=(7, 3.6), layout="constrained")
    drawn = figure.subplots()
    for line, points in lines.items():
        drawn.plot(*zip(*points, strict=True), marker="o", markersize=3, label=line)
    drawn.set(xlabel=axes[0], ylabel=axes[1], xscale=scale, yscale=scale)
    if scale == "linear":
        drawn.set_ylim(bottom=0)
    drawn.legend(frameon=False)
    figure.savefig(PICTURES / f"bench-{name}.svg", metadata={"Date": None})
    return f"![{title}](pictures/bench-{name}.svg)"
