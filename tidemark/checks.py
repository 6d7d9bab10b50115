"""One check of `tidemark doctor`: it ends with one line, and in time."""

from collections.abc import Callable
from contextvars import copy_context
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from threading import Thread

import typer

from lake.failures import one_line

SECONDS = 60.0
"""Longest time of a check: servers that respond do so within seconds."""


@dataclass(frozen=True)
class Check:
    """What `tidemark doctor` checks under one name.

    Attributes:
        name: as its line begins.
        run: returns what was found right, in a few words; raises what is wrong.
        uses: the settings to mend when it never ends.
        seconds: its longest time.
    """

    name: str
    run: Callable[[], str]
    uses: str = ""
    seconds: float = SECONDS

    def passes(self) -> bool:
        """Print the line of the check; return whether it found nothing wrong."""
        outcome: SimpleQueue[tuple[bool, str]] = SimpleQueue()
        # A thread that the end of the process does not wait for: libraries wait without end for a
        # server that accepts a connection and sends nothing.
        Thread(target=copy_context().run, args=(self._put, outcome), daemon=True).start()
        try:
            is_right, line = outcome.get(timeout=self.seconds)
        except Empty:
            is_right = False
            line = f"no response within {self.seconds:g} s; check {self.uses or 'this machine'}"
        typer.echo(f"{'ok   ' if is_right else 'FAIL '} {self.name:8} {line}")
        return is_right

    def _put(self, outcome: SimpleQueue[tuple[bool, str]]) -> None:
        try:
            outcome.put((True, self.run()))
        except typer.BadParameter as error:
            outcome.put((False, error.message))
        except Exception as error:
            outcome.put((False, one_line(error)))
