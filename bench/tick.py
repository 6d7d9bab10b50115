"""Cost of `tidemark lag` and of a tick, against `mqadmin` on the same cluster in the same run.

``make bench-tick`` or ``python -m bench.tick [--rounds N] [--version V]``. It boots a cluster with
every group of the workload and measures whole processes from outside, in turns, because machines
drift:

* `tidemark lag` against `mqadmin consumerProgress`, pair by pair;
* a tick that starts a Spark of its own, and ticks on the warm engine, with the time per stage;
* where ``eatmydata`` is installed, ticks whose files it keeps from being synced, in turns.
"""

import argparse
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import dagster as dg

from bench.soak import TIDEMARK
from orchestration.instance.dagster_home import prepare
from tidemark.embedded import run_services
from tidemark.lab import jars
from tidemark.lab.cluster import LabCluster
from tidemark.lab.layout import free_port_base
from tidemark.lake.tables import progress
from tidemark.settings.environment import Settings
from tidemark.settings.home import Home

_RECORDS = (progress.SNAPSHOTS,)

STAGES = {
    "collect": ("landing",),
    "load": ("raw",),
    "validate": ("validate_",),
    "compute": (
        *(f"progress__{table.short_name}" for table in progress.ALL if table not in _RECORDS),
        "members",
        "quality__quarantine",
    ),
    "alert": ("alerting__",),
    "record": ("quality__results", "progress__snapshots"),
}
"""Stage to the beginnings of its steps' names."""


def main() -> None:
    """Runs the benchmark and prints its tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--version", default="5.3.3")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        home = Home.of(Path(folder) / "home")
        cluster = LabCluster.up(
            Path(folder) / "lab", version=options.version, port_base=free_port_base()
        )
        try:
            cluster.start_workload("all")
            environment = {
                **os.environ,
                "TIDEMARK_HOME": str(home.path),
                "TIDEMARK_NAMESRV": cluster.namesrv,
            }
            _lag(options.version, cluster.namesrv, environment, options.rounds)
            _ticks(home, environment, options.rounds)
        finally:
            run_services.down(home)
            cluster.down(graceful=False)


def _lag(version: str, namesrv: str, environment: Mapping[str, str], rounds: int) -> None:
    ours = [str(TIDEMARK), "lag", "--namesrv", namesrv, "--format", "json"]
    theirs = mqadmin(version, namesrv)
    for command in (ours, theirs):
        _seconds(command, environment)  # warms the page cache
    pairs = [(_seconds(ours, environment), _seconds(theirs, environment)) for _ in range(rounds)]
    _row("tidemark lag, s", [mine for mine, _ in pairs])
    _row("mqadmin consumerProgress, s", [other for _, other in pairs])
    _row("mqadmin over tidemark, pair by pair", [other / mine for mine, other in pairs])


def _ticks(home: Home, environment: Mapping[str, str], rounds: int) -> None:
    prepare(home)
    cold = _tick(environment)
    _row("tick with a Spark of its own, s", [cold])
    _stages("  ", [step_seconds()], [cold])
    started = time.monotonic()
    run_services.up(Settings(home=home))
    _row("engine start, s", [time.monotonic() - started])
    _row("first tick on the engine, s", [_tick(environment)])
    unsynced = shutil.which("eatmydata")
    walls, steps, extra = [], [], []
    for _ in range(rounds):
        walls.append(_tick(environment))
        steps.append(step_seconds())
        if unsynced:
            extra.append(walls[-1] - _seconds([unsynced, str(TIDEMARK), "tick"], environment))
    _row("tick on the warm engine, s", walls)
    _stages("  ", steps, walls)
    if extra:
        _row("a tick less the next one, not synced, s", extra)
    else:
        sys.stdout.write("without eatmydata, the cost of syncing files is not measured\n")


def stage_seconds(steps: Mapping[str, float], prefixes: tuple[str, ...]) -> float:
    """Seconds of the steps of a stage, see `STAGES`."""
    return sum(seconds for name, seconds in steps.items() if name.startswith(prefixes))


def _stages(indent: str, steps: Sequence[Mapping[str, float]], walls: Sequence[float]) -> None:
    rest = list(walls)
    for stage, prefixes in STAGES.items():
        seconds = [stage_seconds(run, prefixes) for run in steps]
        rest = [left - used for left, used in zip(rest, seconds, strict=True)]
        _row(f"{indent}{stage}", seconds)
    _row(f"{indent}process start, imports, Dagster's own", rest)


def _tick(environment: Mapping[str, str]) -> float:
    return _seconds([str(TIDEMARK), "tick"], environment)


def step_seconds() -> dict[str, float]:
    """Seconds of each step of the newest run."""
    with dg.DagsterInstance.get() as instance:
        run = instance.get_run_records(limit=1)[0].dagster_run
        return {
            step.step_key: (step.end_time or 0) - (step.start_time or 0)
            for step in instance.get_run_step_stats(run.run_id)
        }


def mqadmin(version: str, namesrv: str) -> list[str]:
    """The command line of RocketMQ's own tool for the progress of all groups."""
    folder = jars.fetch(version)
    return [
        jars.find("java"),
        "-cp",
        f"{folder}/*",
        "org.apache.rocketmq.tools.command.MQAdminStartup",
        "consumerProgress",
        "-n",
        namesrv,
    ]


def _seconds(command: Sequence[str], environment: Mapping[str, str]) -> float:
    started = time.monotonic()
    done = subprocess.run(command, env=dict(environment), capture_output=True, text=True)
    seconds = time.monotonic() - started
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(command[:2])} exited {done.returncode}: {done.stderr[-500:]}")
    return seconds


def _row(name: str, values: Sequence[float]) -> None:
    low, middle, high = min(values), statistics.median(values), max(values)
    sys.stdout.write(f"{name:42} median {middle:7.2f}   min {low:7.2f}   max {high:7.2f}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
