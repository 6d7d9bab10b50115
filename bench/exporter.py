"""Apache rocketmq-exporter on the same cluster, from a checkout of it that was built before."""

import argparse
import re
import subprocess
import time
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path

import psutil

from tidemark.lab import jars
from tidemark.lab.layout import free_port_base

_EVERY = timedelta(minutes=1)
"""Its own schedule: all of its tasks begin in second 15 of a minute."""
_IDLE = timedelta(seconds=2)
"""So long after the last end, no other task of the cycle is to begin."""
_LINE = re.compile(
    r"^\[([-\d: .]+)\] +INFO .* collection task (starting|finished|ended)\.\.\.\.", re.MULTILINE
)


def built(checkout: str) -> Path:
    """The jar of a checkout, for an argument parser.

    Raises:
        argparse.ArgumentTypeError: there is none; names how to make it.
    """
    paths = sorted(Path(checkout).glob("target/*-exec.jar"))
    if not paths:
        raise argparse.ArgumentTypeError(
            f"{checkout} holds no target/*-exec.jar: run `mvn package` there first"
        )
    return paths[-1]


def cycles(jar: Path, namesrv: str, folder: Path, count: int) -> Iterator[tuple[float, float]]:
    """Let it collect every minute, as it comes; its first cycle warms it and is not counted.

    Args:
        jar: see `built`.
        namesrv: address of the name server.
        folder: where it may log.
        count: cycles to measure.

    Yields:
        tuple[float, float]: seconds from the first of its tasks to the end of the last, and of the
        processor.

    Raises:
        SystemExit: it ended, or a cycle was not done when the next was due.
    """
    port, log = free_port_base(), folder / "exporter.log"
    command = [jars.find("java"), f"-Duser.home={folder}", "-jar", str(jar)]
    command += [f"--rocketmq.config.namesrvAddr={namesrv}"]
    command += [f"--server.port={port}", f"--grpc.server.port={port + 1}"]
    with log.open("w") as out, subprocess.Popen(command, stdout=out, stderr=out) as process:
        try:
            measured = psutil.Process(process.pid)
            for number in range(count + 1):
                _until_due()
                before, begun = measured.cpu_times(), datetime.now()
                wall = _cycle(log, begun)
                after = measured.cpu_times()
                if number:
                    cpu = after.user + after.system - before.user - before.system
                    yield wall, cpu
        finally:
            process.kill()


def _until_due() -> None:
    """Wait until a second before a cycle of its own, at least 15 s: it takes some to boot."""
    now = datetime.now()
    then = now.replace(second=14, microsecond=0)
    while then - now < timedelta(seconds=15):
        then += _EVERY
    time.sleep((then - now).total_seconds())


def _cycle(log: Path, begun: datetime) -> float:
    """Seconds of the cycle that begins after that instant, once all that began is done."""
    while datetime.now() - begun < _EVERY:
        time.sleep(1)
        cycles = [
            (datetime.fromisoformat(instant), what)
            for instant, what in _LINE.findall(log.read_text())
            if datetime.fromisoformat(instant) > begun
        ]
        starts = [instant for instant, what in cycles if what == "starting"]
        ends = [instant for instant, what in cycles if what != "starting"]
        if 0 < len(starts) == len(ends) and datetime.now() - max(ends) > _IDLE:
            return (max(ends) - min(starts)).total_seconds()
    last = log.read_text().splitlines()[-1:]
    raise SystemExit(f"rocketmq-exporter did not end a cycle within {_EVERY}: {last}")
