"""A command that leaves no process behind, at whatever moment it is interrupted."""

import ctypes
import os
import signal
import time
from collections.abc import Callable
from contextlib import suppress

import psutil

TERM_SECONDS = 5.0
"""Time for processes to end by themselves."""

KILL_SECONDS = 30.0
"""Longest time for killed processes to end."""

CHECK_SECONDS = 0.2
"""Time between two looks at what is left."""

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
"""They end the command: Ctrl-C, a service manager, and a terminal that is closed."""

INTERRUPTED = 130

_PR_SET_CHILD_SUBREAPER = 36

Report = Callable[[str], None]


def supervise(report: Report, *, is_endless: bool) -> int | None:
    """Return in a new process, which does the work of this command, and wait here for its end.

    This process does nothing else, so no signal finds it in the middle of something: it never
    handles one, but looks whether there was one. It adopts what loses its parent, so that each
    process that the work starts, in whatever session, stays a descendant. All are ended when the
    work ends or a signal comes, however many more come.

    Args:
        report: called with what is left at the end, which is looked for and not assumed.
        is_endless: whether only a signal ends the work, which is then a success.

    Returns:
        None in the new process; in this one the exit code of the command.
    """
    with suppress(AttributeError):  # only Linux has it
        ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1)
    before = signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
    pid = os.fork()
    if pid == 0:
        os.setsid()  # a terminal signals its session
        for number in SIGNALS:
            signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, before - set(SIGNALS))
        return None
    code = _wait(pid)
    report("stopping, which takes seconds")
    left = end_descendants()
    shown = ", ".join(f"{process.pid} ({_program(process)})" for process in left)
    report(f"these processes are left: {shown}" if left else "no process is left")
    if code is None:
        code = 0 if is_endless else INTERRUPTED
    return 1 if left else code


def end_descendants() -> list[psutil.Process]:
    """End all descendants of this process; return those that cannot be ended."""
    kill_from = time.monotonic() + TERM_SECONDS
    until = kill_from + KILL_SECONDS
    told: set[psutil.Process] = set()
    while left := _descendants():
        now = time.monotonic()
        if now > until:
            break
        for process in left:
            with suppress(psutil.NoSuchProcess):
                if now > kill_from:
                    process.kill()
                elif process not in told:
                    process.terminate()
                    process.resume()  # a stopped process handles a signal when it goes on
        told.update(left)
        time.sleep(CHECK_SECONDS)
    return left


def _wait(pid: int) -> int | None:
    """Return the exit code of a child, None where a signal came first."""
    while True:
        if signal.sigtimedwait(SIGNALS, CHECK_SECONDS) is not None:
            return None
        ended, status = os.waitpid(-1, os.WNOHANG)  # adopted ones too, which would stay zombies
        if ended == pid:
            code = os.waitstatus_to_exitcode(status)
            return code if code >= 0 else 128 - code


def _descendants() -> list[psutil.Process]:
    with suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    return psutil.Process().children(recursive=True)


def _program(process: psutil.Process) -> str:
    with suppress(psutil.Error):
        return process.name()
    return "ended"
