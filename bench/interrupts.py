"""Ctrl-C at random moments of the demo: what is left, and whether its last line states it.

``python -m bench.interrupts [--times 20] [--seed N] [--moments 0.2 1 5] [--before CHECKOUT]``. Each
round starts ``tidemark demo`` on free ports with a new home, sends SIGINT to its process group at a
moment between 0.2 s and 60 s as a terminal does, in every third round ten times within two seconds,
and waits for its end. Processes that are left are found by a variable that this program sets for
each round, and ended.
"""

import argparse
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import psutil

from bench.costs import ROOT
from bench.soak import print_line, start_interruptible_programs
from tidemark.lab.layout import free_port_base

MARK = "BENCH_INTERRUPTS"
EARLIEST, LATEST = 0.2, 60.0
MANY = 10
BETWEEN_SECONDS = 0.2
END_SECONDS = 180
NONE_LEFT = "demo: no process is left"


@dataclass(frozen=True, kw_only=True)
class End:
    """How a demo ended that was interrupted.

    Attributes:
        left: the processes that are left, a line each.
        lines: what it printed.
        code: its exit code.
        seconds: from the first signal to its end.
    """

    left: list[str]
    lines: list[str]
    code: int
    seconds: float

    @property
    def is_told(self) -> bool:
        """Whether its last line states what is left, as it is; before its first one it need not."""
        has_begun = any(line.startswith("demo: ") for line in self.lines)
        return not has_begun or (self.lines[-1] == NONE_LEFT) == (not self.left)


def interrupted(checkout: Path, moment: float, signals: int = 1) -> End:
    """Start the demo of a checkout, interrupt it so many seconds later, and wait for its end.

    Processes that are left are ended.

    Raises:
        TimeoutExpired: it did not end.
    """
    with _new_demo(checkout) as (process, name, output):
        time.sleep(moment)
        first = time.monotonic()
        for _ in range(signals):
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGINT)
            if signals > 1:
                time.sleep(BETWEEN_SECONDS)
        code = process.wait(END_SECONDS)
        seconds = time.monotonic() - first
        left = []
        for it in marked(name):
            with suppress(psutil.Error):
                if it.status() != psutil.STATUS_ZOMBIE:
                    left.append(" ".join(it.cmdline())[:100])
        lines = output.read_text(errors="replace").splitlines()
        return End(left=left, lines=lines, code=code, seconds=seconds)


@contextmanager
def _new_demo(checkout: Path) -> Iterator[tuple[subprocess.Popen[bytes], str, Path]]:
    name = uuid.uuid4().hex
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        home, output = Path(folder) / "home", Path(folder) / "output"
        base = free_port_base()
        ports = ("--port", str(base), "--board-port", str(base + 1))
        process = subprocess.Popen(
            [checkout / ".venv" / "bin" / "tidemark", "demo", *ports],
            cwd=checkout,
            env=os.environ | {"TIDEMARK_HOME": str(home), MARK: name},
            stdin=subprocess.DEVNULL,
            stdout=output.open("wb"),
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            yield process, name, output
        finally:
            process.kill()
            process.wait()
            while left := marked(name):
                for it in left:
                    with suppress(psutil.NoSuchProcess):
                        it.kill()
                psutil.wait_procs(left, timeout=1)


def marked(name: str) -> list[psutil.Process]:
    """Return the processes that were started with the variable of a round."""
    result = []
    for process in psutil.process_iter():
        with suppress(psutil.Error, OSError):
            if process.environ().get(MARK) == name:
                result.append(process)
    return result


def main() -> None:
    """Interrupt the demo at random moments; exit 1 when an end was wrong."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--times", type=int, default=20)
    parser.add_argument("--seed", type=int, default=random.randrange(1_000_000))
    parser.add_argument("--moments", type=float, nargs="+", help="seconds, in place of random ones")
    parser.add_argument("--before", type=Path, help="interrupt the demo of this checkout instead")
    options = parser.parse_args()
    start_interruptible_programs()
    print_line(f"seed {options.seed}")
    chance = random.Random(options.seed)
    moments = options.moments or [chance.uniform(EARLIEST, LATEST) for _ in range(options.times)]
    bad = left = 0
    for number, moment in enumerate(moments, 1):
        signals = MANY if number % 3 == 0 else 1
        end = interrupted(options.before or ROOT, moment, signals)
        left += len(end.left)
        bad += bool(end.left) or not end.is_told
        last = end.lines[-1] if end.lines else "nothing printed"
        print_line(
            f"{number}: {signals} at {moment:.1f} s, ended {end.seconds:.1f} s later with "
            f"{end.code}, {len(end.left)} left; {last}"
        )
        for line in end.left:
            print_line(f"    left: {line}")
    print_line(
        f"{len(moments)} interruptions, {left} processes left, {bad} ends that are not clean"
    )
    if bad:
        sys.exit(1)


if __name__ == "__main__":
    main()
