"""Mistakes of a command line name what was probably meant."""

import sys
from pathlib import Path

import pytest

from tidemark.cli import main as cli

MEANT = {
    "option of all commands": (
        ["lag", "--home", "x"],
        "No such option here: --home. It stands before the command: tidemark --home VALUE lag",
    ),
    "flag of all commands": (
        ["incidents", "list", "--debug"],
        "It stands before the command: tidemark --debug incidents list",
    ),
    "option of a nested command": (
        ["lab", "--workload", "all"],
        "It stands after a command: tidemark lab up --workload",
    ),
    "misspelt option": (["lag", "--formt", "json"], "Possible options: --format"),
    "misspelt command": (["lagg"], "No such command 'lagg'. Did you mean 'tidemark lag'?"),
    "nested command": (
        ["ack", "1"],
        "No such command 'ack'. Did you mean 'tidemark incidents ack'?",
    ),
    "misspelt nested command": (["incidents", "lst"], "Did you mean 'list'?"),
    "misspelt table": (["show", "progres.groups"], "did you mean 'progress.groups'?"),
    "misspelt workload": (["lab", "up", "--workload", "stedy"], "did you mean 'steady'?"),
    "misspelt version": (["lab", "up", "--version", "5.5.2"], "did you mean '5.5.1'?"),
    "part of an option": (["incidents", "silence", "--for", "1h"], "--group"),
}


@pytest.fixture
def printed(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path):
    monkeypatch.setenv("TIDEMARK_HOME", str(tmp_path / "home"))

    def run(*arguments: str, program: str = "tidemark") -> tuple[object, str]:
        monkeypatch.setattr(sys, "argv", [program, *arguments])
        with pytest.raises(SystemExit) as ended:
            cli.main()
        captured = capsys.readouterr()
        return ended.value.code, captured.out + captured.err

    return run


@pytest.mark.parametrize("arguments, meant", MEANT.values(), ids=MEANT)
def test_a_mistake_names_what_was_meant(printed, arguments: list[str], meant: str) -> None:
    code, text = printed(*arguments)
    assert meant in text
    assert code in (1, 2)


@pytest.mark.parametrize("arguments", [["--help"], ["lag", "--help"], ["incidents", "--help"]])
def test_each_help_looks_the_same(printed, arguments: list[str]) -> None:
    code, text = printed(*arguments)
    assert code == 0
    assert "Options:\n" in text and "╭" not in text and "--install-completion" not in text
    assert "...\n" not in text.partition("Options:\n")[2], "no sentence is cut off"


def test_a_remedy_is_a_line_that_the_shell_finds(printed, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    code, text = printed("lab", "kill", "broker-a", program=".venv/bin/tidemark")
    assert code == 1
    assert text.endswith("start one with: .venv/bin/tidemark lab up\n")
