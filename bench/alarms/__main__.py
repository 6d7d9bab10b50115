"""Counts of false and missed incidents on real brokers, and the delay of the right ones.

``python -m bench.alarms [--version 5.5.1] [--minutes 20] [--every 15] [--keep DIR]``. It boots two
clusters of a version. In one, healthy consumers of every mode live an hour of ordinary life in so
many minutes; in the other, groups were healthy until each got its fault. Tidemark collects both and
computes with the ready-made rules as they are.
"""

import argparse
import signal
import tempfile
import threading
import time
from collections.abc import Sequence
from contextlib import ExitStack, nullcontext
from datetime import UTC, datetime
from pathlib import Path

from bench import report
from bench.alarms import verdicts
from bench.alarms.clusters import (
    HEALTHY_CLUSTER,
    SICK_CLUSTER,
    HealthyLife,
    SickLife,
    Span,
    booted,
)
from bench.alarms.monitor import monitor
from bench.soak import print_line
from tidemark.alerting.rules.files import ready_made_rules
from tidemark.lab import jars
from tidemark.lake.tables.alerting import INCIDENTS

HEALTHY_SECONDS = 180.0
"""Time for which faulty groups are healthy first: more than the observations of health."""

EXPIRED_AT = 0.8
"""Share of the time after which old messages expire in the sick cluster."""

DEEP_EVERY = 45.0
PAUSE_SECONDS = 30.0


def main() -> None:
    """Measure, print both tables, and write the section of the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--version", default=jars.VERSIONS[0], choices=jars.VERSIONS)
    parser.add_argument("--minutes", type=float, default=20)
    parser.add_argument("--every", type=float, default=15, help="seconds between two snapshots")
    parser.add_argument("--keep", type=Path, help="a folder for homes and logs, which stay")
    options = parser.parse_args()
    # As after Ctrl-C: brokers and clients run in sessions of their own and would stay behind.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    folder = nullcontext(options.keep) if options.keep else tempfile.TemporaryDirectory()
    with folder as name:
        root = Path(name).absolute()
        root.mkdir(parents=True, exist_ok=True)
        text = measure(root, options.version, options.minutes * 60, options.every)
    print_line(text)
    report.write_section(f"alarms {options.version}", text)


def measure(folder: Path, version: str, seconds: float, every: float) -> str:
    """Return the section of the page.

    Args:
        folder: for the homes.
        version: of RocketMQ.
        seconds: of observation.
        every: seconds between two snapshots.
    """
    with ExitStack() as stack:
        watched = stack.enter_context(monitor(folder / "home"))
        good = stack.enter_context(booted(folder / HEALTHY_CLUSTER, version, brokers=2))
        bad = stack.enter_context(booted(folder / SICK_CLUSTER, version, brokers=1))
        healthy, sick = HealthyLife(good, version), SickLife(bad, version)
        stack.callback(healthy.end)
        stack.callback(sick.end)
        healthy.begin()
        sick.begin()
        clusters = {HEALTHY_CLUSTER: good.cluster, SICK_CLUSTER: bad.cluster}
        with watched.running(clusters, every, DEEP_EVERY, PAUSE_SECONDS):
            begun, start = datetime.now(UTC), time.monotonic()
            failures: list[Exception] = []
            # A daemon: after Ctrl-C nothing waits for the rest of the hour.
            living = threading.Thread(
                target=_live, args=(healthy, start, seconds, failures), daemon=True
            )
            living.start()
            time.sleep(HEALTHY_SECONDS)
            sick.strike()
            time.sleep(max(0.0, start + EXPIRED_AT * seconds - time.monotonic()))
            sick.expire()
            living.join()
        if failures:
            raise failures[0]
        fired = verdicts.firings(watched.lake.read(INCIDENTS).to_pylist())
    return _section(version, seconds, every, begun, healthy, sick, fired, good.spans)


def _live(healthy: HealthyLife, start: float, seconds: float, failures: list[Exception]) -> None:
    try:
        healthy.live(start, seconds)
    except Exception as error:
        failures.append(error)


def _section(
    version: str,
    seconds: float,
    every: float,
    begun: datetime,
    healthy: HealthyLife,
    sick: SickLife,
    fired: Sequence[verdicts.Firing],
    spans: Sequence[Span],
) -> str:
    false = verdicts.false_alarms(fired, spans)
    judged = verdicts.judge(sick.faults, sick.began, fired)
    missed = sum(verdict.missed for verdict in judged)
    rules = {rule.name for rule in ready_made_rules()}
    return "\n\n".join(
        [
            f"## False and missed alarms, RocketMQ {version}",
            f"An hour of ordinary life in {seconds / 60:g} minutes, a snapshot every {every:g} s "
            f"and a deep one every {DEEP_EVERY:g} s, thresholds as they are. Faults begin after "
            f"{HEALTHY_SECONDS:g} s of health and last for {(seconds - HEALTHY_SECONDS) / 60:g} "
            f"minutes. {report.machine()}. Made by `python -m bench.alarms --version {version} "
            f"--minutes {seconds / 60:g}`.",
            f"{len(healthy.consumers)} healthy groups: {len(false)} false alarms. "
            f"{len(judged)} faults: {missed} missed.",
            verdicts.healthy_table(healthy.consumers, false),
            *([verdicts.false_table(false, spans, begun)] if false else []),
            verdicts.sick_table(judged, rules),
        ]
    )


if __name__ == "__main__":
    main()
