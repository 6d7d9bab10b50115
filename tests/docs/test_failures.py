"""Each promise of the page about failures names the test that would break it."""

import ast
import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "deployment" / "failures.md").read_text()


def rows_under(heading: str) -> dict[str, str]:
    """First and last cell of each row of the table under a heading."""
    part = PAGE.split(f"## {heading}\n", 1)[1].split("\n## ", 1)[0]
    rows = re.findall(r"^\| (.+) \|$", part, re.MULTILINE)[1:]
    return {row.split(" | ")[0]: row.split(" | ")[-1] for row in rows}


PROMISES = rows_under("What fails, what you see, what is lost")
TESTS = rows_under("Which test would break each promise")


def test_each_promise_has_its_row() -> None:
    assert list(TESTS) == list(PROMISES)


def test_each_test_that_is_named_exists() -> None:
    named = re.findall(r"`(tests/\S+)::(\w+)`", " ".join(TESTS.values()))
    assert len(named) > 15
    for file, name in named:
        tree = ast.parse((ROOT / file).read_text())
        assert name in {each.name for each in tree.body if isinstance(each, ast.FunctionDef)}, name


def test_a_promise_without_a_test_says_so() -> None:
    others = {text for text in TESTS.values() if "::" not in text}
    assert others <= {"the same", "none: the loss of a disk is not tested"}
