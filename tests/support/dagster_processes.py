"""Dagster's own processes: daemon, code servers and pages; and what people start in pages."""

import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar
from urllib.request import Request, urlopen

import dagster as dg

Result = TypeVar("Result")
Logs = Mapping[subprocess.Popen[bytes], Path]
"""Processes that must run, each with its log."""

SECONDS = 900
"""A machine that is busy takes minutes for the imports of three processes."""

ENDED = ("COMPLETED_SUCCESS", "COMPLETED_FAILED")

LAUNCH = """
mutation($params: LaunchBackfillParams!) {
  launchPartitionBackfill(backfillParams: $params) {
    __typename ... on LaunchBackfillSuccess { backfillId } ... on PythonError { message }
  }
}
"""

START = """
mutation($selector: ScheduleSelector!) {
  startSchedule(scheduleSelector: $selector) {
    __typename ... on PythonError { message }
  }
}
"""


@contextmanager
def process(
    arguments: Sequence[str], log: Path, env: Mapping[str, str]
) -> Iterator[subprocess.Popen[bytes]]:
    """Run a command of this environment beside its log; it is interrupted at the end."""
    with log.open("wb") as output:
        started = subprocess.Popen(
            # As a container's main process has it; a shell's background job ignores it.
            ["env", "--default-signal=INT",
             str(Path(sys.executable).with_name(arguments[0])), *arguments[1:]],
            cwd=log.parent,
            env=dict(env),
            stdout=output,
            stderr=output,
        )  # fmt: skip
    try:
        yield started
    finally:
        started.send_signal(signal.SIGINT)
        try:
            started.wait(60)
        except subprocess.TimeoutExpired:
            started.kill()
            started.wait()


def until(done: Callable[[], Result], processes: Logs) -> Result:
    """Wait for a condition while processes run; none may end before. Return what it gave."""
    deadline = time.monotonic() + SECONDS
    while not (result := done()):
        running = all(process.poll() is None for process in processes)
        assert running and time.monotonic() < deadline, "\n".join(
            f"{log}: {log.read_text(errors='replace')[-3000:]}" for log in processes.values()
        )
        time.sleep(1)
    return result


def answer(port: int, query: str, **variables: Any) -> Any:
    """Return what Dagster's pages get for a query."""
    content = json.dumps({"query": query, "variables": variables}).encode()
    request = Request(
        f"http://127.0.0.1:{port}/graphql", content, {"Content-Type": "application/json"}
    )
    with urlopen(request, timeout=60) as response:
        return json.load(response)["data"]


def has_pages(port: int) -> bool:
    """Return whether Dagster's pages answer; the line that announces them comes before."""
    try:
        return bool(answer(port, "{ version }"))
    except OSError:
        return False


def start_schedule(port: int, name: str, location: str) -> None:
    """Switch a schedule of a code location on, as a person does in Dagster's pages."""
    selector = {
        "scheduleName": name,
        "repositoryName": "__repository__",
        "repositoryLocationName": location,
    }
    started = answer(port, START, selector=selector)["startSchedule"]
    assert started["__typename"] == "ScheduleStateResult", started


def ended_backfill(
    instance: dg.DagsterInstance,
    port: int,
    processes: Logs,
    *,
    assets: Sequence[str],
    partitions: Sequence[str],
) -> Any:
    """Launch a backfill as a person does in Dagster's pages, and return it when it has ended.

    Args:
        instance: of Dagster.
        port: of its pages.
        processes: that compute it, of which none may end before.
        assets: keys, as ``progress/groups``.
        partitions: keys of hours.
    """
    params = {
        "assetSelection": [{"path": key.split("/")} for key in assets],
        "partitionNames": list(partitions),
    }
    launched = answer(port, LAUNCH, params=params)["launchPartitionBackfill"]
    assert launched["__typename"] == "LaunchBackfillSuccess", launched

    def backfill() -> Any:
        present = instance.get_backfill(launched["backfillId"])
        return present if present and present.status.value in ENDED else None

    return until(backfill, processes)
