"""Each promise about failures and about the board names the test that would break it."""

import ast
import re
from pathlib import Path

import pytest

from tidemark.board import application, connections, middleware, passwords
from tidemark.board.views import live

ROOT = Path(__file__).parents[2]
FAILURES, BOARD = (
    (ROOT / "docs" / page).read_text() for page in ("deployment/failures.md", "board.md")
)
HEADING = "Which test would break each promise"


def rows_under(page: str, heading: str) -> dict[str, str]:
    """First and last cell of each row of the table under a heading."""
    part = page.split(f"## {heading}\n", 1)[1].split("\n## ", 1)[0]
    rows = re.findall(r"^\| (.+) \|$", part, re.MULTILINE)[1:]
    return {row.split(" | ")[0]: row.split(" | ")[-1] for row in rows}


def test_each_failure_has_its_row() -> None:
    failures = rows_under(FAILURES, "What fails, what you see, what is lost")
    assert list(rows_under(FAILURES, HEADING)) == list(failures)


def test_each_bound_of_a_request_has_its_row() -> None:
    bounds = rows_under(BOARD, "What a request may cost")
    assert len(bounds) > 8 and bounds.keys() <= rows_under(BOARD, HEADING).keys()


@pytest.mark.parametrize("page", [FAILURES, BOARD], ids=["failures", "board"])
def test_each_promise_names_tests_that_exist(page: str) -> None:
    tests = rows_under(page, HEADING)
    assert len(tests) > 20
    for promise, cell in tests.items():
        named = re.findall(r"`(tests/\S+)::(\w+)`", cell)
        assert named, promise
        for file, name in named:
            tree = ast.parse((ROOT / file).read_text())
            assert name in {item.name for item in tree.body if isinstance(item, ast.FunctionDef)}


def test_bounds_of_the_board_are_those_of_the_code() -> None:
    of_parts = middleware.Limits()
    sizes = (of_parts.head, of_parts.address, of_parts.part, of_parts.body)
    rows = re.findall(r"^\| (.+) \|$", BOARD, re.MULTILINE)
    bounds = {row.split(" | ")[0]: row.split(" | ")[1] for row in rows if row.count(" | ") == 2}
    assert bounds["headers; address; a part or a parameter of it; a body"] == "; ".join(
        f"{size // 1024} KiB" for size in sizes
    )
    assert bounds["parameters of an address"] == f"{of_parts.parameters}"
    assert bounds["snapshots taken now"] == (
        f"{live.THREADS} clusters at once, "
        f"one a cluster in {live.SECONDS:g} s; "
        f"{live.WAITING} requests wait for one"
    )
    assert bounds["wrong passwords of a peer (an IPv4 address or an IPv6 /64)"] == (
        f"{passwords.WRONG} at once, then one every {passwords.RECOVERY_SECONDS:g} s; "
        f"{passwords.AT_ONCE} are compared at a time"
    )
    waiting = bounds["passwords that all peers together have compared"]
    assert waiting.startswith(f"{passwords.WAITING} wait")
    assert bounds["requests that are computed"] == f"{application.THREADS} at once"
    times = connections.ConnectionLimits(connections=1)
    assert next(bounds[name] for name in bounds if name.startswith("time for a head")) == (
        f"{times.head_seconds:g} s, {times.body_seconds:g} s; {times.idle_seconds:g} s; "
        f"{times.stalled_seconds:g} s"
    )
