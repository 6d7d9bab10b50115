"""`tidemark plan`: bad usage with any cluster."""

import pytest
from typer.testing import CliRunner

from tidemark.cli.commands.plan import app


@pytest.mark.parametrize("strategy", ["fair", "AVERAGE", "-AVG"])
def test_an_unknown_strategy_is_bad_usage(strategy):
    """It took a snapshot first, and exit code 1."""
    group = ["--group", "g", "--clients", "2"]
    done = CliRunner().invoke(app, [*group, "--strategy", strategy, "--namesrv", "127.0.0.1:1"])
    assert done.exit_code == 2 and "is none of AVG" in done.output
