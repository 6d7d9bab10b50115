"""Running a command in the fork server of its home, which has its imports loaded."""

import sys

import typer

from orchestration.instance import forking
from tidemark.invocation import invocation


def hand_over() -> None:
    """Run this command in a forked process; return where there is no fork server.

    Raises:
        Exit: with the code of the forked process.
    """
    code = forking.run(invocation().home, "tidemark.cli", sys.argv[1:])
    if code is not None:
        raise typer.Exit(code)
