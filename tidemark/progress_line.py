"""Progress and warnings of long commands, on standard error."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import typer

from tidemark.output import printable


@contextmanager
def steps(name: str) -> Iterator[Callable[[str], None]]:
    """Yield a function that reports a step; on a terminal a spinner shows the newest step.

    Args:
        name: name of the command.
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
    """Write a problem of a long command, which then continues."""
    typer.echo(printable(line), err=True)
