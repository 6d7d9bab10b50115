"""Commands import as little as they need, because their first line waits for it."""

import gc
import subprocess
import sys

import pytest

from tests.support.commands import output_of
from tests.support.homes import environment
from tidemark.cli.invocation import keeping_garbage
from tidemark.cli.main import SHARED

CODE = """
import sys
from tidemark.cli.main import main

sys.argv = ["tidemark", *{arguments}]
try:
    main()
except SystemExit as ended:
    import pyarrow.dataset

    print(ended.code, "pandas:", "pandas" in sys.modules)
"""


IMPORTS = """
import sys
import tidemark.cli.commands.{module}

print([name for name in ("pyarrow", "pyiceberg", "duckdb", "dagster") if name in sys.modules])
"""


@pytest.mark.parametrize("command", ["snapshot", "lag", "why", "plan", "collect"])
def test_a_command_that_reads_brokers_begins_without_the_tables(command):
    """Their libraries take longer to import than a small cluster takes to respond."""
    code = IMPORTS.format(module=SHARED.get(command, command))
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert run.stdout == "[]\n", run.stderr


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "has_pandas"),
    [
        (["show", "raw.snapshots"], False),
        (["incidents", "list"], False),
        (["quarantine", "list"], False),
        (["rules", "check"], True),
    ],
    ids=["show", "incidents", "quarantine", "rules"],
)
def test_a_command_that_reads_leaves_out_pandas(lake, arguments, has_pandas):
    env = environment(lake.home)
    code = CODE.format(arguments=arguments)
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=env)
    assert run.stdout.splitlines()[-1:] == [f"0 pandas: {has_pandas}"], run.stderr


def test_garbage_is_searched_for_again_after_a_command(lake):
    output_of(lake.home, "show", "raw.snapshots")
    assert gc.isenabled()
    with keeping_garbage():
        assert not gc.isenabled()
    assert gc.isenabled()
