"""A process that collects keeps little memory: Arrow's own allocator would reserve more."""

import os
import subprocess
import sys

import pytest

CODE = """
import sys
from tidemark.cli.main import main

sys.argv = ["tidemark", "collect", "--store", "no such folder"]
try:
    main()
except SystemExit:
    import pyarrow

    print("allocator:", pyarrow.default_memory_pool().backend_name)
"""


@pytest.mark.slow
@pytest.mark.parametrize(("named", "used"), [(None, "system"), ("mimalloc", "mimalloc")])
def test_collect_uses_the_system_allocator_unless_another_is_named(tmp_path, named, used):
    env = {**os.environ, "TIDEMARK_HOME": str(tmp_path)}
    env.pop("ARROW_DEFAULT_MEMORY_POOL", None)
    env |= {"ARROW_DEFAULT_MEMORY_POOL": named} if named else {}
    run = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True, env=env)
    assert run.stdout.splitlines()[-1:] == [f"allocator: {used}"], run.stderr
