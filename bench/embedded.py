"""The parts of the embedded runtime, measured: ticks with each and without it, in turns.

``python -m bench.embedded [--rounds N] [--groups N]`` prints, for each part of
`tidemark.embedded`, the seconds that a tick, or the command that the part is for, takes longer
without it. A part that buys less than 0.3 s has no reason to stay.
"""

import argparse
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from datetime import UTC, datetime, timedelta

from bench.costs import ROOT, Cost, Side, side
from bench.soak import print_line
from orchestration.instance.dagster_home import MARK

OWN_STORAGE = """telemetry: {enabled: false}
run_launcher:
  module: tidemark.embedded.launcher
  class: ForkingRunLauncher
"""
"""A configuration of Dagster with its own storage; without the mark Tidemark leaves it as is."""

FIRST_TICKS = 5
"""Ticks of a new engine that cost more than later ones."""

WITH_PANDAS = "import pandas, sys; from tidemark.cli.main import main; sys.exit(main())"
"""The command in a process that has imported pandas before."""


@contextmanager
def _without_fork_server(measured: Side) -> Iterator[None]:
    _python(measured, "forking.down(home)")
    try:
        yield
    finally:
        _python(measured, "forking.up(home)")


@contextmanager
def _without_kept_storage(measured: Side) -> Iterator[None]:
    config = measured.home / "dagster" / "dagster.yaml"
    written = config.read_text()
    assert written.startswith(MARK)
    config.write_text(OWN_STORAGE)
    try:
        yield
    finally:
        config.write_text(written)


PARTS: dict[str, Callable[[Side], AbstractContextManager[None]]] = {
    "fork server (`fork_server`, `forking`, `launcher`)": _without_fork_server,
    "Dagster's storage on kept connections (`event_log`, `storage`)": _without_kept_storage,
}


def _python(measured: Side, statement: str) -> None:
    program = (
        "from tidemark.embedded import forking; from tidemark.settings.home import Home; "
        f"home = Home.of({str(measured.home)!r}); {statement}"
    )
    subprocess.run([sys.executable, "-c", program], cwd=ROOT, check=True)


def _tick(measured: Side, minutes: Iterator[int]) -> Cost:
    minute = next(minutes)
    measured.put(minute, minute + 1)
    return measured.tidemark("tick", "--no-collect")


def _row(name: str, pairs: Sequence[tuple[float, float]]) -> None:
    """Print the medians of both sides and of their differences, with the least and the most."""
    saved = [without - whole for whole, without in pairs]
    print_line(
        f"{name}: {statistics.median(whole for whole, _ in pairs):.2f} s with it, "
        f"{statistics.median(without for _, without in pairs):.2f} s without it, saves "
        f"{statistics.median(saved):.2f} s ({min(saved):.2f} to {max(saved):.2f})"
    )


def _show(measured: Side, *, program: Sequence[str]) -> float:
    environment = {**os.environ, "TIDEMARK_HOME": str(measured.home)}
    started = time.perf_counter()
    subprocess.run(
        [*program, "show", "progress.groups", "--limit", "5"],
        env=environment,
        check=True,
        capture_output=True,
    )
    return time.perf_counter() - started


def main() -> None:
    """Measure each part in turns with the whole."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--groups", type=int, default=25)
    options = parser.parse_args()
    now = datetime.now(UTC).replace(minute=0, second=0, microsecond=0)
    minutes = iter(range(10_000))
    with side(ROOT, now - timedelta(hours=3), options.groups) as measured:
        measured.tidemark("engine", "up")
        for _ in range(FIRST_TICKS):
            _tick(measured, minutes)
        for name, without in PARTS.items():
            pairs = []
            for _ in range(options.rounds):
                whole = _tick(measured, minutes)
                with without(measured):
                    pairs.append((whole, _tick(measured, minutes)))
            _row(f"{name}, wall", [(a.wall, b.wall) for a, b in pairs])
            _row(f"{name}, CPU", [(a.cpu, b.cpu) for a, b in pairs])
        plain = [str(ROOT / ".venv/bin/tidemark")]
        heavy = [sys.executable, "-c", WITH_PANDAS]
        shows = [
            (_show(measured, program=plain), _show(measured, program=heavy))
            for _ in range(options.rounds)
        ]
        _row("`tidemark show` without pandas (`tidemark.cli.invocation`), wall", shows)
        whole = _tick(measured, minutes)
        measured.tidemark("engine", "down")
        alone = _tick(measured, minutes)
        _row("warm Spark engine (`run_services`), wall", [(whole.wall, alone.wall)])
        _row("warm Spark engine (`run_services`), CPU", [(whole.cpu, alone.cpu)])


if __name__ == "__main__":
    main()
