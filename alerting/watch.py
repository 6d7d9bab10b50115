"""Watching the watcher: is Tidemark itself at work, and does what it reads hold together?

Looked at by the clock, not by snapshots: that no snapshot comes is the very thing to be told.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import msgspec

from alerting.fields import fits
from alerting.incidents import Evaluation, Truth
from alerting.rules import BaseRule, Rule
from lake.catalog import Lake
from lake.memory import MEMORY
from lake.tables.progress import SNAPSHOTS
from lake.tables.quality import RESULTS
from lake.window import HOUR, Window

DAY = timedelta(days=1)

PIPELINE = "tidemark"
"""Subject of what is about no cluster."""


def look(
    lake: Lake,
    rules: Sequence[Rule],
    failed_runs: Mapping[str, Sequence[str]],
    now: datetime,
    since: datetime,
    unwatched: Collection[str] = (),
) -> Evaluation:
    """What the rules about the pipeline say now.

    Args:
        lake: the tables.
        rules: of any kind; those about the pipeline are asked.
        failed_runs: of every job the runs that failed since the last one that succeeded, the newest
            first.
        now: the present.
        since: when watching began; before, nothing was late.
        unwatched: clusters that nobody is to look at any more; none of them is late.
    """
    states = {
        "collection_late": lambda: _ages(lake, now, since, unwatched),
        "quality": lambda: _verdicts(lake, now),
        "run_failed": lambda: [
            State(job, float(len(failed)), {"cluster": None, "runs": list(failed[:5])}, now)
            for job, failed in failed_runs.items()
        ],
    }
    truths: list[Truth] = []
    untrue: dict[tuple[str, str], datetime] = {}
    for rule in rules:
        if rule.kind in states:
            for state in states[rule.kind]():
                (variant,) = rule.variants()
                if fits(variant.matches[0], state.row):
                    if state.value is None or state.value > variant.threshold:
                        truths.append(_truth(rule, state))
                    else:
                        untrue[rule.name, state.subject] = state.at
    return Evaluation(now, None, tuple(truths), frozenset(untrue), untrue)


@dataclass(frozen=True)
class State:
    """How it is with something that is watched.

    Attributes:
        subject: what it is about.
        value: the number that rules compare; None where it could not even be judged.
        row: what it comes from.
        at: when it was found out. However often one looks, that is one observation.
    """

    subject: str
    value: float | None
    row: dict[str, Any]
    at: datetime


def _ages(
    lake: Lake, now: datetime, since: datetime, unwatched: Collection[str]
) -> Iterable[State]:
    """Every cluster computed within a day, and the age of its newest snapshot in seconds.

    One that has been silent for longer is not here, which says nothing: its incident stays. Where
    there is none, all has been silent since the last one of any, or since watching began.
    """
    rows = lake.read(SNAPSHOTS, Window(now - MEMORY, now), columns=("cluster", "observed_at"))
    for row in rows.group_by("cluster").aggregate([("observed_at", "max")]).to_pylist():
        if row["cluster"] in unwatched:
            continue
        at = row["observed_at_max"]
        columns = {"cluster": row["cluster"], "newest_at": at.isoformat()}
        yield State(row["cluster"], (now - at).total_seconds(), columns, now)
    if rows.num_rows:
        yield State(PIPELINE, 0.0, {"cluster": None, "newest_at": None}, now)
        return
    newest = _newest_before(lake, now - MEMORY, since)
    silent = (now - (newest or since)).total_seconds()
    columns = {"cluster": None, "newest_at": newest.isoformat() if newest else None}
    yield State(PIPELINE, silent, columns, now)


def _newest_before(lake: Lake, end: datetime, since: datetime) -> datetime | None:
    """The newest computed snapshot from `since` to an instant: day by day, most have no file."""
    while end > since:
        start = max(end - DAY, since)
        found = lake.read(SNAPSHOTS, Window(start, end), columns=("observed_at",))
        if found.num_rows:
            return max(found["observed_at"].to_pylist())
        end = start
    return None


def _verdicts(lake: Lake, now: datetime) -> Iterable[State]:
    """Every expectation's newest verdict within the hour, as an observation when it was judged.

    That no row broke it where there was none says nothing: a cluster may be out of reach.
    """
    columns = (
        *("observed_at", "table", "expectation", "success", "unexpected", "elements"),
        *("window_start", "window_end"),
    )
    newest: dict[tuple[str, str], Mapping[str, Any]] = {}
    rows = lake.read(RESULTS, Window(now - HOUR, now), columns=columns).to_pylist()
    for row in sorted(rows, key=lambda row: row["observed_at"]):
        key = row["table"], row["expectation"]
        says_nothing = row["success"] and row["elements"] == 0
        if not says_nothing and not _is_of_the_past(row, newest.get(key)):
            newest[key] = row
    for (table, expectation), row in sorted(newest.items()):
        broken = None if row["unexpected"] is None else float(row["unexpected"])
        found = {"cluster": None, "table": table, "expectation": expectation}
        value = 0.0 if row["success"] else broken
        yield State(f"{table}/{expectation}", value, found, row["observed_at"])


def _is_of_the_past(row: Mapping[str, Any], known: Mapping[str, Any] | None) -> bool:
    """Whether a verdict is on rows before those of a known one: the past was computed again."""
    return bool(known and known["window_start"] and row["window_end"] <= known["window_start"])


def _truth(rule: BaseRule, state: State) -> Truth:
    evidence = {
        "kind": rule.kind,
        "words": rule.words,
        "description": rule.description,
        "runbook": rule.runbook,
        "labels": dict(rule.labels),
        "observations": [],
        "row": state.row,
    }
    return Truth(
        observed_at=state.at,
        rule=rule.name,
        severity=rule.severity,
        subject=state.subject,
        value=state.value,
        threshold=rule.limit,
        evidence=msgspec.json.encode(evidence).decode(),
    )
