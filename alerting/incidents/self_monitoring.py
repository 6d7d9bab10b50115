"""Alert rules about Tidemark's own work: late snapshots, failed expectations, failed runs.

These rules are evaluated by the clock and not on snapshots, because a missing snapshot is one of
the faults that they find.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import msgspec

from alerting.incidents.incident import Alert, Evaluation
from alerting.rules.model import BaseRule, Rule
from lake.catalog import Lake
from lake.landing import newest_landed
from lake.retention import TRUSTED
from lake.tables.progress import SNAPSHOTS
from lake.tables.quality import RESULTS
from lake.window import HOUR, Window
from settings.constants import MEMORY
from settings.fields import fits

DAY = timedelta(days=1)

PIPELINE = "tidemark"
"""Subject of alerts that concern no single cluster."""


def check_pipeline(
    lake: Lake,
    rules: Sequence[Rule],
    failed_runs: Mapping[str, Sequence[str]],
    now: datetime,
    since: datetime,
    removed_clusters: Collection[str] = (),
    *,
    at_work: bool = False,
) -> Evaluation:
    """Evaluate the rules about the pipeline now.

    Args:
        lake: the tables.
        rules: rules of any kind; only those about the pipeline are evaluated.
        failed_runs: by job, the runs that failed since its last success, newest first.
        now: the present.
        since: start of the monitoring; nothing is late before.
        removed_clusters: clusters that are no longer configured; none of them is late.
        at_work: whether a run keeps landed snapshots waiting; then they count as if computed.
    """
    landed_at = newest_landed(lake.landing, now + TRUSTED) if at_work else {}
    states = {
        "collection_late": lambda: _ages(lake, now, since, removed_clusters, landed_at),
        "quality": lambda: _validation_results(lake, now),
        "run_failed": lambda: [
            State(job, float(len(failed)), {"cluster": None, "runs": list(failed[:5])}, now)
            for job, failed in failed_runs.items()
        ],
    }
    alerts: list[Alert] = []
    untrue: dict[tuple[str, str], datetime] = {}
    for rule in rules:
        if rule.kind in states:
            for state in states[rule.kind]():
                (applied,) = rule.applied_rules()
                if fits(applied.matches[0], state.row):
                    if state.value is None or state.value > applied.threshold:
                        alerts.append(_alert(rule, state))
                    else:
                        untrue[rule.name, state.subject] = state.at
    return Evaluation(now, None, tuple(alerts), frozenset(untrue), untrue)


@dataclass(frozen=True)
class State:
    """The state of one monitored subject.

    Attributes:
        subject: name of the subject.
        value: the number that rules compare; None where it could not be computed.
        row: the columns that the value comes from.
        at: when the value was determined. Evaluating it twice is still one observation.
    """

    subject: str
    value: float | None
    row: dict[str, Any]
    at: datetime


def _ages(
    lake: Lake,
    now: datetime,
    since: datetime,
    removed_clusters: Collection[str],
    landed_at: Mapping[str, datetime],
) -> Iterable[State]:
    """Yield the age in seconds of the newest snapshot of each cluster computed within a day.

    A cluster without a snapshot for longer is absent, so its incident stays open. Without any
    cluster, the age counts from the newest snapshot of all, or from the start of the monitoring.
    """
    rows = lake.read(SNAPSHOTS, Window(now - MEMORY, now), columns=("cluster", "observed_at"))
    for row in rows.group_by("cluster").aggregate([("observed_at", "max")]).to_pylist():
        if row["cluster"] in removed_clusters:
            continue
        computed_at = row["observed_at_max"]
        at = max(computed_at, landed_at.get(row["cluster"], computed_at))
        columns = {"cluster": row["cluster"], "newest_at": at.isoformat()}
        yield State(row["cluster"], (now - at).total_seconds(), columns, now)
    if rows.num_rows:
        yield State(PIPELINE, 0.0, {"cluster": None, "newest_at": None}, now)
        return
    newest = max(landed_at.values(), default=None) or _newest_before(lake, now - MEMORY, since)
    age = (now - (newest or since)).total_seconds()
    columns = {"cluster": None, "newest_at": newest.isoformat() if newest else None}
    yield State(PIPELINE, age, columns, now)


def _newest_before(lake: Lake, end: datetime, since: datetime) -> datetime | None:
    """Return the instant of the newest computed snapshot from `since` to `end`.

    The search goes back day by day, as most days hold no file.
    """
    while end > since:
        start = max(end - DAY, since)
        found = lake.read(SNAPSHOTS, Window(start, end), columns=("observed_at",))
        if found.num_rows:
            return max(found["observed_at"].to_pylist())
        end = start
    return None


def _validation_results(lake: Lake, now: datetime) -> Iterable[State]:
    """Yield the newest validation result of each expectation within the hour.

    Only rows that were validated for the first time count: a backfill or an audit by hand judges
    them again, which is no further observation. A result of no rows counts neither, as the cluster
    may be unreachable. The instant is that of the rows, so it stays when they are judged again.
    """
    names = (
        *("observed_at", "table", "expectation", "success", "unexpected"),
        "judged_until",
    )
    newest: dict[tuple[str, str], Mapping[str, Any]] = {}
    rows = lake.read(RESULTS, Window(now - HOUR, now), columns=names).to_pylist()
    counted = (row for row in rows if row["judged_until"] and row["success"] is not None)
    for row in sorted(counted, key=lambda row: (row["judged_until"], row["observed_at"])):
        newest[row["table"], row["expectation"]] = row
    for (table, expectation), row in sorted(newest.items()):
        unexpected = None if row["unexpected"] is None else float(row["unexpected"])
        columns = {"cluster": None, "table": table, "expectation": expectation}
        value = 0.0 if row["success"] else unexpected
        at = min(row["judged_until"], row["observed_at"])
        yield State(f"{table}/{expectation}", value, columns, at)


def _alert(rule: BaseRule, state: State) -> Alert:
    evidence = {
        "kind": rule.kind,
        "words": rule.words,
        "description": rule.description,
        "runbook": rule.runbook,
        "labels": dict(rule.labels),
        "observations": [],
        "row": state.row,
    }
    return Alert(
        observed_at=state.at,
        rule=rule.name,
        severity=rule.severity,
        subject=state.subject,
        value=state.value,
        threshold=rule.limit,
        evidence=msgspec.json.encode(evidence).decode(),
    )
