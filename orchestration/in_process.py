"""Running a job in this process, as the command line does: same job, same instance, same lease."""

import json
import logging
from collections.abc import Callable, Iterable
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import dagster as dg

from assets.dagster_names import process_tags
from assets.partitions import PARTITION, PENDING, first_hour, partition_key, range_tags
from assets.raw import LANDING
from orchestration.instance.dagster_home import opened_storage, prepare
from orchestration.instance.runs import end_dead_runs, forget_runs, rotate_logs
from orchestration.jobs import RECOMPUTE, TICK
from tidemark.host.failures import OURS, SERVER_GONE, essence
from tidemark.host.state import State
from tidemark.lake import clocks
from tidemark.lake.catalog import Lake
from tidemark.lake.catalog_config import CatalogConfig
from tidemark.lake.clocks import Window
from tidemark.lake.landing import newest_landed
from tidemark.lake.landing_places import Landing
from tidemark.planning.history import parts
from tidemark.settings.environment import Settings

if TYPE_CHECKING:
    from tidemark.embedded.dagster_private import SerializableErrorInfo

MOST_FORGOTTEN = 3
"""Runs forgotten after each run of the command line, which may have no daemon to do it."""

BACKFILL = "backfill.json"
"""Name in the shared state of the progress of a backfill."""

Report = Callable[[str], None]


def _ignore(_: str, /) -> None:
    """Report to no one."""


class RunError(Exception):
    """A run failed: which step, and why, in one line."""


def tick(
    settings: Settings,
    *,
    collect: bool = True,
    report: Report = _ignore,
    complain: Report = _ignore,
) -> str:
    """Run one tick and return its run id.

    Args:
        settings: of this process.
        collect: whether to take a snapshot first.
        report: receives the name of each step as it starts.
        complain: receives a line for each thing that was left out, as an unusable rule, and at once
            a line with the run that this one waits for.

    Raises:
        RunError: when it failed.
    """
    without = () if collect else (LANDING,)
    hour = datetime.now(UTC) if collect else _last_hour(settings)
    tags = {**PENDING, PARTITION: partition_key(hour)}
    return _run(settings, TICK.name, tags, without, report, complain)


def _last_hour(settings: Settings) -> datetime:
    """Return an instant of the last hour that a tick has to compute if it does not collect."""
    now, landing = datetime.now(UTC), Landing.of(settings.home, settings.catalog)
    newest = max(newest_landed(landing, clocks.latest(now)).values(), default=now)
    return newest if first_hour(settings.history_days) <= newest < now else now


def recompute(
    settings: Settings,
    window: Window,
    *,
    restart: bool = False,
    report: Report = _ignore,
    complain: Report = _ignore,
) -> str:
    """Recompute whole hours in parts, one run each; return the id of the last run. See `tick`.

    Completed parts of a stopped backfill of the same hours are not repeated. A tick that is due
    meanwhile runs between two parts, so alerts do not wait for all hours.

    Args:
        settings: of this process.
        window: the hours.
        restart: whether to begin at the first hour, also after a stopped backfill.
        report: receives the hours under way and the name of each step as it starts.
        complain: receives a line for each thing that was left out, as an unusable rule.

    Raises:
        RunError: when a part failed.
    """
    lake = Lake(settings.home, CatalogConfig.of(settings.home, settings.catalog))
    state = lake.shared.state
    left = window if restart else remaining(state, window)
    if left != window:
        complain(f"continues at {left.start:%Y-%m-%dT%H:%MZ}, where it was stopped")
    planned = parts(lake, left)
    run_id = ""
    for number, part in enumerate(planned, 1):
        hours = f"{part.start:%Y-%m-%dT%H:%MZ} to {part.end:%Y-%m-%dT%H:%MZ}"
        where = f"part {number} of {len(planned)}, {hours}"
        _note(state, window, part.start)
        run_id = _run(
            settings,
            RECOMPUTE.name,
            range_tags(part),
            (),
            lambda step, where=where: report(f"{where}: {step}"),
            complain,
        )
        _note(state, window, part.end)
        if len(planned) > 1:
            complain(f"done: {where}")
    return run_id


def remaining(state: State, window: Window) -> Window:
    """Return the remaining hours of a backfill: all, unless an equal backfill was stopped.

    Each part of a backfill (`tidemark.planning.history.parts`) is a run, and a killed backfill
    repeats at most one. The shared state records the computed parts until the backfill is complete,
    so that another host can continue it.

    If the state is unreadable, all hours remain: to compute an hour again changes nothing.
    """
    try:
        stopped = json.loads(state.read(BACKFILL) or "{}")
        if {"start": stopped.get("start"), "end": stopped.get("end")} != _hours(window):
            return window
        return Window(max(window.start, datetime.fromisoformat(stopped["done"])), window.end)
    except (ValueError, LookupError, TypeError, AttributeError):
        return window


def _note(state: State, window: Window, done: datetime) -> None:
    """Record up to which instant a backfill is done; a complete one has no record."""
    left = {} if done >= window.end else {**_hours(window), "done": done.isoformat()}
    state.write(BACKFILL, json.dumps(left))


def _hours(window: Window) -> dict[str, str]:
    return {"start": window.start.isoformat(), "end": window.end.isoformat()}


def _run(
    settings: Settings,
    job: str,
    tags: dict[str, str],
    without: Iterable[dg.AssetKey],
    report: Report,
    complain: Report,
) -> str:
    prepare(settings.home)
    from orchestration.definitions import build

    complaints: list[str] = []
    console = step_logger(report, complaints.append, complain)
    definitions = build(settings, loggers={"console": console})
    resolved = definitions.resolve_job_def(job)
    if without:
        layer = resolved.asset_layer
        resolved = resolved.get_subset(
            asset_selection=frozenset(layer.executable_asset_keys) - set(without),
            # Else every check of a chosen asset, also those of other jobs.
            asset_check_selection=frozenset(layer.asset_graph.asset_check_keys),
        )
    with opened_storage() as instance:
        end_dead_runs(instance)
        run_id = str(uuid4())
        result = resolved.execute_in_process(
            instance=instance,
            run_id=run_id,
            tags={**tags, **process_tags(run_id)},
            run_config={"loggers": {"console": {}}},
            raise_on_error=False,
        )
        forget_runs(
            instance, datetime.now(UTC) - timedelta(days=settings.run_history_days), MOST_FORGOTTEN
        )
    rotate_logs(settings.home)
    if not result.success:
        # Dagster logs as errors all that could not run any more: the reason is enough.
        raise RunError(with_remedy(_reason(result), job))
    # More than one step may read the same settings.
    for complaint in dict.fromkeys(complaints):
        complain(complaint)
    return result.run_id


WHEN_BACK = {
    TICK.name: "the next tick goes on when it is back",
    RECOMPUTE.name: "give the same command again when it is back: parts that are done stay done",
}
"""The remedy for a Spark Connect server that is gone, by job."""


def with_remedy(reason: str, job: str) -> str:
    """Return why a run of a job failed, with the remedy where that depends on the job."""
    return f"{reason}; {WHEN_BACK[job]}" if SERVER_GONE in reason else reason


def _reason(result: dg.ExecuteInProcessResult) -> str:
    """Return why a run failed: the message of its first failed step, or the root cause.

    Raises:
        KeyboardInterrupt: a person ended it.
    """
    for event in result.all_events:
        if event.is_step_failure:
            return f"{event.step_key}: {_error_text(event.step_failure_data.error)}"
        if event.is_failure and event.event_specific_data:
            error = getattr(event.event_specific_data, "error", None)
            if error:
                return _error_text(error)
    return "the run failed; see it in the Dagster UI"


def _error_text(error: "SerializableErrorInfo | None") -> str:
    if _was_interrupted(error):
        raise KeyboardInterrupt
    while error:
        kind, _, text = error.message.strip().partition(": ")
        if kind.split(".")[0] in OURS:
            return essence(text)
        if not error.cause:
            return essence(text if kind.startswith("dagster.") and text else error.message)
        error = error.cause
    return "no reason given"


def _was_interrupted(error: "SerializableErrorInfo | None") -> bool:
    """Return whether a Ctrl-C caused a failure, whatever error the interrupted code raised."""
    return error is not None and (
        error.cls_name in ("DagsterExecutionInterruptedError", "KeyboardInterrupt")
        or _was_interrupted(error.cause)
        or _was_interrupted(error.context)
    )


WITHOUT_RESULT = "did not yield or return expected outputs"
"""Part of Dagster's own report about a check without a result, as that of a table without rows."""


def step_logger(report: Report, complain: Report, remark: Report = _ignore) -> dg.LoggerDefinition:
    """Return a Dagster logger of the lines for a person at the command line.

    Args:
        report: receives the name of each step as it starts.
        complain: receives errors of our own code.
        remark: receives lines of our own code about other processes.
    """

    class Handler(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            meta: dict[str, Any] = getattr(record, "dagster_meta", None) or {}
            event = meta.get("dagster_event")
            if event is not None and event.event_type_value == "STEP_START":
                report(str(event.step_key))
            elif event is None and record.levelno in (logging.INFO, logging.ERROR):
                text = str(meta.get("orig_message") or record.getMessage())
                if WITHOUT_RESULT not in text:
                    (complain if record.levelno == logging.ERROR else remark)(text)

    @dg.logger
    def run_logger(_: dg.InitLoggerContext) -> logging.Logger:
        logger = logging.Logger("tidemark.run", logging.DEBUG)
        logger.addHandler(Handler())
        return logger

    return run_logger
