"""Commands that read tables and compute nothing leave out pandas; those that compute have it."""

import subprocess
import sys

import pytest

from tests.support.homes import environment

CODE = """
import sys
from tidemark.cli import main

sys.argv = ["tidemark", *{arguments}]
try:
    main()
except SystemExit as ended:
    import pyarrow.dataset

    print(ended.code, "pandas:", "pandas" in sys.modules)
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "has_pandas"),
    [
        (["show", "raw.snapshots"], False),
        (["incidents", "list"], False),
        (["quarantine", "list"], False),
        (["rules", "check"], True),
    ],
    ids=lambda each: each[0] if isinstance(each, list) else "",
)
def test_a_command_that_reads_leaves_out_pandas(lake, arguments, has_pandas):
    env = environment(lake.home)
    code = CODE.format(arguments=arguments)
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=env)
    assert run.stdout.splitlines()[-1:] == [f"0 pandas: {has_pandas}"], run.stderr
