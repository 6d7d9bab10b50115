"""A command that leaves no process behind, at whatever moment it is interrupted."""

import ctypes
import os
import signal
import time
from collections.abc import Callable, Iterable
from contextlib import suppress

import psutil

TERM_SECONDS = 5.0
"""Time for processes to end by themselves."""

KILL_SECONDS = 30.0
"""Longest time for killed processes to end."""

CHECK_SECONDS = 0.2
"""Time between two checks of what is left."""

SIGNALS = (signal.SIGINT, signal.SIGQUIT, signal.SIGTERM, signal.SIGHUP)
"""They end the command: Ctrl-C, Ctrl-\\, a service manager, and a terminal that is closed."""

INTERRUPTED = 130

_PR_SET_CHILD_SUBREAPER = 36

Report = Callable[[str], None]


def supervise(report: Report, *, is_endless: bool) -> int | None:
    """Return in a new process, which does the work of this command, and wait here for its end.

    This process does nothing else, so no signal finds it in the middle of something: it never
    handles one, but checks whether there was one. It adopts what loses its parent, so that each
    process that the work starts, in whatever session, stays a descendant. All are ended when the
    work ends or a signal comes, however many more come, and whether or not anyone reads the report.
    A hangup that is ignored, as under ``nohup``, ends nothing.

    Args:
        report: called with what is left at the end, which is looked for and not assumed.
        is_endless: whether only a signal ends the work, which is then a success.

    Returns:
        None in the new process; in this one the exit code of the command.
    """
    with suppress(AttributeError):  # only Linux has it
        ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # ignored, it would hide how the work ended
    is_kept = signal.getsignal(signal.SIGHUP) == signal.SIG_IGN
    ends = [number for number in SIGNALS if not (is_kept and number == signal.SIGHUP)]
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {*ends, signal.SIGCHLD})
    pid = os.fork()
    if pid == 0:
        os.setsid()  # a terminal signals its session
        for number in ends:
            signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, before - {*ends, signal.SIGCHLD})
        return None
    code = _wait(pid, ends)
    with suppress(OSError):  # the terminal or the reader of a pipe may have gone first
        report("stopping, which takes seconds")
    left = end_descendants()
    shown = ", ".join(f"{process.pid} ({_program(process)})" for process in left)
    with suppress(OSError):
        report(f"these processes are left: {shown}" if left else "no process is left")
    if code is None:
        code = 0 if is_endless else INTERRUPTED
    return 1 if left else code


def end_descendants() -> list[psutil.Process]:
    """End all descendants of this process; return those that cannot be ended."""
    kill_from = time.monotonic() + TERM_SECONDS
    until = kill_from + KILL_SECONDS
    terminated: set[psutil.Process] = set()
    while left := _descendants():
        now = time.monotonic()
        if now > until:
            break
        for process in left:
            with suppress(psutil.Error):  # ended meanwhile, or of another user
                if now > kill_from:
                    process.kill()
                elif process not in terminated:
                    process.terminate()
                    process.resume()  # a stopped process handles a signal when it goes on
        terminated.update(left)
        time.sleep(CHECK_SECONDS)
    return left


def _wait(pid: int, signals: Iterable[int]) -> int | None:
    """Return the exit code of a child, None where a signal came first.

    It sleeps until then: a blocked SIGCHLD waits like the other signals.
    """
    while signal.sigwait({*signals, signal.SIGCHLD}) == signal.SIGCHLD:
        while (ended := os.waitpid(-1, os.WNOHANG))[0]:  # adopted ones too, which stay zombies else
            if ended[0] == pid:
                code = os.waitstatus_to_exitcode(ended[1])
                return code if code >= 0 else 128 - code
    return None


def _descendants() -> list[psutil.Process]:
    with suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    return psutil.Process().children(recursive=True)


def _program(process: psutil.Process) -> str:
    with suppress(psutil.Error):
        return process.name()
    return "ended"
