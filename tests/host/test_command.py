"""The command in lines to paste is one that the shell there finds."""

import sys
from pathlib import Path

import pytest

from tidemark.host.command import elsewhere, here, pasteable

SCRIPT = Path(sys.executable).with_name("tidemark")


@pytest.fixture
def on_path(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", f"{SCRIPT.parent}:/usr/bin")
    monkeypatch.setattr(sys, "argv", [str(SCRIPT), "lag"])
    monkeypatch.delenv("VIRTUAL_ENV", raising=False)


def test_its_name_is_enough_where_it_is_on_path(on_path: None) -> None:
    assert (here(), elsewhere()) == ("tidemark", "tidemark")


def test_an_active_environment_is_not_active_in_other_shells(
    on_path: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VIRTUAL_ENV", str(SCRIPT.parent.parent))
    assert (here(), elsewhere()) == ("tidemark", str(SCRIPT))


def test_it_is_the_path_that_was_typed_where_it_is_not_on_path(
    on_path: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "/usr/bin")
    monkeypatch.setattr(sys, "argv", [".venv/bin/tidemark", "lag"])
    assert (here(), elsewhere()) == (".venv/bin/tidemark", str(SCRIPT))


def test_another_command_of_that_name_on_path_is_not_it(
    on_path: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    other = tmp_path / "tidemark"
    other.touch(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert (here(), elsewhere()) == (str(SCRIPT), str(SCRIPT))


def test_only_calls_of_the_command_change() -> None:
    text = "see tidemark doctor (tidemark lag), tidemark: x, .venv/bin/tidemark tick, my-tidemark a"
    assert pasteable(text, "./t") == (
        "see ./t doctor (./t lag), tidemark: x, .venv/bin/tidemark tick, my-tidemark a"
    )
