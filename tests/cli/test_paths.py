"""Files and folders on the command line: an empty name is a mistake, not the working folder."""

import pytest
from typer.testing import CliRunner

from tidemark.cli.commands import backup, collect, rules


@pytest.mark.parametrize(
    ("app", "arguments"),
    [
        (collect.app, ["--store", ""]),
        (collect.app, ["--local-offsets", "", "--cluster", "c"]),
        (collect.app, ["--stats-log", "", "--cluster", "c", "--broker", "b"]),
        (collect.app, ["--stats-log", "a", "", "--cluster", "c", "--broker", "b"]),
        (collect.app, ["--every", "10s", "--alive-file", ""]),
        (backup.app, [""]),
        (backup.restore_app, [""]),
        (rules.app, ["test", "", "--from", "2026-11-20", "--to", "2026-11-21"]),
    ],
)
def test_an_empty_name_is_bad_usage(app, arguments):
    done = CliRunner().invoke(app, arguments)
    assert done.exit_code == 2 and "it is empty" in done.output
