"""Time limit of a run: a run that takes longer ends itself and prints why.

Dagster's daemon ends such runs too, and so does every command that starts a run. A command line may
have no daemon, and the next command may run much later; until then no other run could change the
tables.
"""

import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

GRACE_SECONDS = 20.0
"""Longest time for an interrupted run to end. It may wait for a response that never comes, as of
an engine that hangs. A kill loses nothing."""


@contextmanager
def ended_after(seconds: float, grace: float = GRACE_SECONDS) -> Iterator[None]:
    """End this process if the context lasts longer than its time.

    The process is first interrupted as by Ctrl-C, then killed, which frees its lease.

    Args:
        seconds: the longest time.
        grace: seconds from the interrupt to the end by force.
    """
    over = threading.Event()

    def watch() -> None:
        if over.wait(seconds):
            return
        _say(f"the run has taken longer than {seconds:g} s (TIDEMARK_RUN_MINUTES): it ends now")
        os.kill(os.getpid(), signal.SIGINT)
        # The system ends the process if this thread does not get its turn either.
        signal.setitimer(signal.ITIMER_REAL, 2 * grace)
        if not over.wait(grace):
            _say(f"it did not end within {grace:g} s and is killed; the next run does its work")
            os.kill(os.getpid(), signal.SIGKILL)
        signal.setitimer(signal.ITIMER_REAL, 0)

    thread = threading.Thread(target=watch, name="longest-time", daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join(grace)


def _say(line: str) -> None:
    # Not print: the thread that is stuck may hold the lock of the stream.
    os.write(sys.__stderr__.fileno() if sys.__stderr__ else 2, f"tidemark: {line}\n".encode())
