"""Watching the watcher: is Tidemark itself at work, and does what it reads hold together?

Looked at by the clock, not by snapshots: that no snapshot comes is the very thing to be told.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

from alerting.fields import fits
from alerting.incidents import Evaluation, Truth
from alerting.rules import BaseRule, Rule
from lake.catalog import Lake
from lake.memory import MEMORY
from lake.tables.progress import SNAPSHOTS
from lake.tables.quality import RESULTS
from lake.window import HOUR, Window

PIPELINE = "tidemark"
"""Subject of what is about no cluster."""


def look(
    lake: Lake,
    rules: Sequence[Rule],
    failed_runs: Mapping[str, Sequence[str]],
    now: datetime,
    since: datetime,
) -> Evaluation:
    """What the rules about the pipeline say now.

    Args:
        lake: the tables.
        rules: of any kind; those about the pipeline are asked.
        failed_runs: of every job the runs that failed since the last one that succeeded, the newest
            first.
        now: the present.
        since: when watching began; before, nothing was late.
    """
    states = {
        "collection_late": lambda: _ages(lake, now, since),
        "quality": lambda: _verdicts(lake, now),
        "run_failed": lambda: [
            (job, float(len(failed)), {"cluster": None, "runs": list(failed[:5])})
            for job, failed in failed_runs.items()
        ],
    }
    truths: list[Truth] = []
    untrue: set[tuple[str, str]] = set()
    for rule in rules:
        if rule.kind in states:
            for subject, value, row in states[rule.kind]():
                (variant,) = rule.variants()
                if fits(variant.matches[0], row):
                    if value is None or value > variant.threshold:
                        truths.append(_truth(rule, subject, value, row, now))
                    else:
                        untrue.add((rule.name, subject))
    return Evaluation(now, None, tuple(truths), frozenset(untrue))


State = tuple[str, float | None, dict[str, Any]]
"""(subject, value, the row it comes from); the value None where it could not even be judged."""


def _ages(lake: Lake, now: datetime, since: datetime) -> Iterable[State]:
    """Every cluster computed within a day, and the age of its newest snapshot in seconds.

    One that has been silent for longer is not here, which says nothing: its incident stays. Where
    there is none, as when the first tick never comes, all has been silent since watching began.
    """
    rows = lake.read(SNAPSHOTS, Window(now - MEMORY, now), columns=("cluster", "observed_at"))
    for row in rows.group_by("cluster").aggregate([("observed_at", "max")]).to_pylist():
        at = row["observed_at_max"]
        columns = {"cluster": row["cluster"], "newest_at": at.isoformat()}
        yield row["cluster"], (now - at).total_seconds(), columns
    silent = 0.0 if rows.num_rows else (now - since).total_seconds()
    yield PIPELINE, silent, {"cluster": None, "newest_at": None}


def _verdicts(lake: Lake, now: datetime) -> Iterable[State]:
    """Every expectation's verdict on the newest rows it was asked of, within the hour."""
    columns = ("observed_at", "table", "expectation", "success", "unexpected", "window_end")
    newest: dict[tuple[str, str], Mapping[str, Any]] = {}
    rows = lake.read(RESULTS, Window(now - HOUR, now), columns=columns).to_pylist()
    for row in sorted(rows, key=lambda row: (row["window_end"], row["observed_at"])):
        newest[row["table"], row["expectation"]] = row
    for (table, expectation), row in sorted(newest.items()):
        broken = None if row["unexpected"] is None else float(row["unexpected"])
        found = {"cluster": None, "table": table, "expectation": expectation}
        yield f"{table}/{expectation}", 0.0 if row["success"] else broken, found


def _truth(
    rule: BaseRule, subject: str, value: float | None, row: Mapping[str, Any], now: datetime
) -> Truth:
    evidence = {
        "kind": rule.kind,
        "words": rule.words,
        "description": rule.description,
        "runbook": rule.runbook,
        "labels": dict(rule.labels),
        "observations": [],
        "row": dict(row),
    }
    return Truth(now, rule.name, rule.severity, subject, value, rule.limit, json.dumps(evidence))
