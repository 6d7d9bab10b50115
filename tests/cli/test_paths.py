"""Files and folders on the command line: an empty name is a mistake, not the working folder."""

import pytest
from typer.testing import CliRunner

from tidemark.cli.commands import backup, collect, restore, rules


@pytest.mark.parametrize(
    ("command", "arguments"),
    [
        (collect, ["--store", ""]),
        (collect, ["--local-offsets", "", "--cluster", "c"]),
        (collect, ["--stats-log", "", "--cluster", "c", "--broker", "b"]),
        (collect, ["--stats-log", "a", "", "--cluster", "c", "--broker", "b"]),
        (collect, ["--every", "10s", "--alive-file", ""]),
        (backup, [""]),
        (restore, [""]),
        (rules, ["test", "", "--from", "2026-11-20", "--to", "2026-11-21"]),
    ],
)
def test_an_empty_name_is_bad_usage(command, arguments):
    done = CliRunner().invoke(command.app, arguments)
    assert done.exit_code == 2 and "it is empty" in done.output
