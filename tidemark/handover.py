"""Handing a command on to the fork server of its home, which has done its imports already."""

import sys

import typer

from lake.home import Home
from orchestration import forking


def hand_over() -> None:
    """Lets a forked process do this command; returns where none can and this one must.

    Raises:
        Exit: with the code of the forked process.
    """
    code = forking.run(Home.of(), "tidemark.cli", sys.argv[1:])
    if code is not None:
        raise typer.Exit(code)
