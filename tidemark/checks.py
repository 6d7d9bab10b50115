"""One check of `tidemark doctor`: it ends in time, with a line for each mistake."""

from collections.abc import Callable, Sequence
from contextvars import copy_context
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from threading import Thread

import typer

from lake.failures import one_line
from tidemark.errors import MistakesError

SECONDS = 60.0
"""Longest time of a check: servers that respond do so within seconds."""


@dataclass(frozen=True)
class Check:
    """A check of `tidemark doctor`, which prints one line for it.

    Attributes:
        name: the beginning of its line.
        run: returns the good result in a few words; raises the mistake.
        uses: the settings to mend when it never ends.
        seconds: its longest time.
    """

    name: str
    run: Callable[[], str]
    uses: str = ""
    seconds: float = SECONDS

    def passes(self) -> bool:
        """Print the line of the check, or one for each mistake; return whether there is none."""
        outcome: SimpleQueue[tuple[bool, Sequence[str]]] = SimpleQueue()
        # A thread that the end of the process does not wait for: libraries wait without end for a
        # server that accepts a connection and sends nothing.
        Thread(target=copy_context().run, args=(self._put, outcome), daemon=True).start()
        try:
            is_right, lines = outcome.get(timeout=self.seconds)
        except Empty:
            is_right = False
            where = self.uses or "this machine"
            lines = [f"no response within {self.seconds:g} s; check {where}"]
        for line in lines:
            typer.echo(f"{'ok   ' if is_right else 'FAIL '} {self.name:8} {line}")
        return is_right

    def _put(self, outcome: SimpleQueue[tuple[bool, Sequence[str]]]) -> None:
        try:
            outcome.put((True, [self.run()]))
        except typer.BadParameter as error:
            outcome.put((False, [error.message]))
        except MistakesError as error:
            outcome.put((False, [" ".join(each.split()) for each in error.mistakes]))
        except Exception as error:
            outcome.put((False, [one_line(error)]))
