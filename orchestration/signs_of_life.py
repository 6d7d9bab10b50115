"""Heartbeats to an outside service, after each tick and after each delivery."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import dagster as dg

from alerting.delivery.heartbeat import heartbeat
from assets.run_tags import OF_TIDEMARK
from orchestration.jobs import TICK


@contextmanager
def sign_of_life(url: str) -> Iterator[list[str]]:
    """Send a heartbeat after a delivery; it failed where it raises or leaves a problem.

    Args:
        url: see `heartbeat`.

    Yields:
        A list for the problems of the delivery, to which that of the heartbeat is added.
    """
    problems: list[str] = []
    try:
        yield problems
    except BaseException:
        heartbeat(url, succeeded=False)
        raise
    if wrong := heartbeat(url, succeeded=not problems):
        problems.append(wrong)


def beat_of_ticks(
    context: dg.SensorEvaluationContext, url: str, warn: Callable[[str], None]
) -> None:
    """Send a heartbeat when a tick has ended since the last evaluation; the cursor holds which.

    A tick that failed sends the sign of failure.
    """
    if not url:
        return
    over = [dg.DagsterRunStatus.SUCCESS, dg.DagsterRunStatus.FAILURE]
    ticks = dg.RunsFilter(job_name=TICK.name, statuses=over, tags=OF_TIDEMARK)
    newest = context.instance.get_runs(ticks, limit=1)
    if not newest or newest[0].run_id == context.cursor:
        return
    context.update_cursor(newest[0].run_id)
    succeeded = newest[0].status == dg.DagsterRunStatus.SUCCESS
    if wrong := heartbeat(url, succeeded=succeeded):
        warn(wrong)
