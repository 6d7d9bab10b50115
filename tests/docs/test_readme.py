"""The README stays short, and is the same in both languages."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
ENGLISH, CHINESE = (ROOT / "README.md").read_text(), (ROOT / "README.zh-CN.md").read_text()

MOST_LINES = 120


def blocks(text: str) -> list[str]:
    """Return the code blocks without comments."""
    matches = re.findall(r"```\w+\n(.*?)```", text, re.DOTALL)
    return [re.sub(r" +#.*", "", block) for block in matches]


def links(text: str) -> list[str]:
    return [link for link in re.findall(r"\]\(([^)]+)\)", text) if not link.startswith("README")]


@pytest.mark.parametrize("text", [ENGLISH, CHINESE], ids=["en", "zh"])
def test_readme_has_at_most_120_lines(text: str) -> None:
    assert len(text.splitlines()) <= MOST_LINES


def test_both_readmes_show_the_same_commands() -> None:
    assert blocks(ENGLISH) == blocks(CHINESE)
    rows = [re.findall(r"^\| (`.+?) \|", text, re.MULTILINE) for text in (ENGLISH, CHINESE)]
    assert [re.findall(r"`([^`]+)`", row) for row in rows[0]] == [
        re.findall(r"`([^`]+)`", row) for row in rows[1]
    ]


def test_both_readmes_have_the_same_parts_and_links() -> None:
    assert len(re.findall("^## ", ENGLISH, re.MULTILINE)) == len(
        re.findall("^## ", CHINESE, re.MULTILINE)
    )
    assert sorted(links(ENGLISH)) == sorted(links(CHINESE))


def test_linked_files_exist() -> None:
    files = [link for link in links(ENGLISH) if not link.startswith("http")]
    assert len(files) > 10
    assert [file for file in files if not (ROOT / file).is_file()] == []


def test_first_block_holds_the_two_commands() -> None:
    assert re.findall(r"^make \w+", blocks(ENGLISH)[0], re.MULTILINE) == ["make demo", "make test"]
