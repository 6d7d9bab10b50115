"""Showing what a long command is at."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import typer


@contextmanager
def steps(name: str) -> Iterator[Callable[[str], None]]:
    """Gives a function to report each step to; on a terminal a spinner shows the newest.

    Args:
        name: what is under way.
    """
    started = time.monotonic()
    if sys.stderr.isatty():
        from rich.console import Console

        with Console(stderr=True).status(name) as status:
            yield lambda step: status.update(f"{name}: {step}")
    else:
        yield lambda step: None
    typer.echo(f"{name}: done in {time.monotonic() - started:.1f} s", err=True)


def complain(line: str) -> None:
    """Says what went wrong or is left out in a long command, which goes on."""
    typer.echo(line, err=True)
