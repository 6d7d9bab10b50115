"""All measurements one after the other, each into its section of ``docs/benchmarks.md``.

``make bench`` or ``python -m bench [--before CHECKOUT] [--only NAME ...]``. CHECKOUT is one of an
earlier version with a ``.venv`` of its own; ticks and backfills are then measured beside its. One
that fails does not keep the others from being made. Nothing else should run on the machine.
"""

import argparse
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from bench.soak import print_line

PARTS: dict[str, Sequence[str]] = {
    "costs": (),
    "growth": ("--ticks", "2"),
    "beside": ("--hours", "1", "--calm", "1"),
    "collect": (),
    "lag": ("--rounds", "3"),
    "demo": ("--rounds", "1", "--prepared"),
    "metrics": (),
    "pages": ("--days", "3"),
    "pollers": ("--days", "3", "--pairs", "2"),
    "standalone": ("--groups", "250", "--ticks", "2"),
}
"""Modules of `bench`, with options that keep all of them within 40 minutes.

The parts before ``demo`` have fetched its jars.
"""

COMPARED = ("costs", "demo")
"""Parts that can be compared with those of an earlier version."""


def main() -> None:
    """Run the parts, print how long each took, and exit 1 when one failed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--before", type=Path, help="a checkout of an earlier version")
    parser.add_argument("--only", nargs="+", choices=PARTS, default=list(PARTS))
    options = parser.parse_args()
    failed = []
    for name in options.only:
        more = ["--before", str(options.before)] if name in COMPARED and options.before else []
        started = time.monotonic()
        done = subprocess.run([sys.executable, "-m", f"bench.{name}", *PARTS[name], *more])
        print_line(f"bench.{name}: {time.monotonic() - started:.0f} s")
        if done.returncode:
            failed.append(f"{name} ended with {done.returncode}")
    if failed:
        sys.exit("; ".join(failed))


if __name__ == "__main__":
    main()
