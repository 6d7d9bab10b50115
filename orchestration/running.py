"""Running a job in this process, as the command line does: same job, same instance, same lock."""

import logging
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from typing import Any

import dagster as dg

from assets.collecting import LANDING
from assets.partitions import PENDING, partition_key, range_tags
from lake.home import Home
from lake.window import Window
from orchestration.dead_runs import end_dead_runs, process_tag
from orchestration.instance import prepare
from orchestration.jobs import RECOMPUTE, TICK

Report = Callable[[str], None]


class RunError(Exception):
    """A run failed: which step, and why, in one line."""


def tick(home: Home, *, collect: bool = True, report: Report = lambda step: None) -> str:
    """Runs one tick and returns its run id.

    Args:
        home: where everything lies.
        collect: whether to take a snapshot first.
        report: told the name of each step as it starts.

    Raises:
        RunError: when it failed.
    """
    now = partition_key(datetime.now(UTC))
    without = () if collect else (LANDING,)
    return _run(home, TICK.name, {**PENDING, "dagster/partition": now}, without, report)


def recompute(home: Home, window: Window, *, report: Report = lambda step: None) -> str:
    """Recomputes whole hours in one run and returns its run id.

    Raises:
        RunError: when it failed.
    """
    return _run(home, RECOMPUTE.name, range_tags(window), (), report)


def _run(
    home: Home, job: str, tags: dict[str, str], without: Iterable[dg.AssetKey], report: Report
) -> str:
    prepare(home)
    # Imported here: its resources read the environment that was just prepared.
    from orchestration.definitions import build

    definitions = build(loggers={"console": step_logger(report)})
    resolved = definitions.resolve_job_def(job)
    if without:
        layer = resolved.asset_layer
        resolved = resolved.get_subset(
            asset_selection=frozenset(layer.executable_asset_keys) - set(without),
            # Else every check of a chosen asset, also those of other jobs.
            asset_check_selection=frozenset(layer.asset_graph.asset_check_keys),
        )
    with dg.DagsterInstance.get() as instance:
        end_dead_runs(instance)
        result = resolved.execute_in_process(
            instance=instance,
            tags={**tags, **process_tag()},
            run_config={"loggers": {"console": {}}},
            raise_on_error=False,
        )
    if not result.success:
        raise RunError(_reason(result))
    return result.run_id


def _reason(result: dg.ExecuteInProcessResult) -> str:
    """Why a run failed: the innermost cause of its first failed step."""
    for event in result.all_events:
        if event.is_step_failure:
            error = event.step_failure_data.error
            while error and error.cause:
                error = error.cause
            message = (error.message if error else "").strip() or "no reason given"
            text = message.split(": ", 1)[-1] if message.startswith("dagster.") else message
            return f"{event.step_key}: {' '.join(text.split())[:500]}"
        if event.is_failure and event.event_specific_data:
            error = getattr(event.event_specific_data, "error", None)
            if error:
                return " ".join(error.message.split())[:500]
    return "the run failed; see it in the Dagster UI"


def step_logger(report: Report) -> dg.LoggerDefinition:
    """A Dagster logger that tells only which step starts, and warnings."""

    class Handler(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            meta: dict[str, Any] = getattr(record, "dagster_meta", None) or {}
            event = meta.get("dagster_event")
            if event is not None and event.event_type_value == "STEP_START":
                report(str(event.step_key))

    @dg.logger
    def quiet(_: dg.InitLoggerContext) -> logging.Logger:
        logger = logging.Logger("tidemark.run", logging.DEBUG)
        logger.addHandler(Handler())
        return logger

    return quiet
