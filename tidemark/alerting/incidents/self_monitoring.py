"""Alert rules about Tidemark's own work: late snapshots, failed expectations, failed runs.

These rules are evaluated by the clock and not on snapshots, because a missing snapshot is one of
the faults that they find.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

import msgspec

from tidemark.alerting.incidents.incident import Alert, Evaluation
from tidemark.alerting.rules.model import BaseRule, Rule
from tidemark.lake import clocks
from tidemark.lake.catalog import Lake
from tidemark.lake.clocks import HOUR, Window
from tidemark.lake.landing import newest_landed
from tidemark.lake.tables.progress import SNAPSHOTS
from tidemark.lake.tables.quality import RESULTS
from tidemark.settings.fields import fits
from tidemark.settings.sections import MEMORY

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
    tick_took: timedelta = timedelta(0),
    without_success: Collection[str] = (),
) -> Evaluation:
    """Evaluate the rules about the pipeline now.

    Args:
        lake: the tables.
        rules: rules of any kind; only those about the pipeline are evaluated.
        failed_runs: by job, the runs that failed since its last success, newest first.
        now: the present.
        since: start of the monitoring; no cluster is late before.
        removed_clusters: clusters that are no longer configured; none of them is late.
        at_work: whether a run keeps landed snapshots waiting; then they are not late. No cluster
            has recovered either until a snapshot is computed.
        tick_took: duration of the last tick. A computed snapshot is that old at the tick's end, so
            it may be older than a rule allows by this duration.
        without_success: jobs without a success in Dagster's history, which may be incomplete: too
            few failures prove nothing there.
    """
    landed_at = newest_landed(lake.landing, clocks.latest(now)) if at_work else {}
    states = {
        "collection_late": lambda: _ages(
            lake, now, since, removed_clusters, landed_at, tick_took.total_seconds()
        ),
        "quality": lambda: _validation_results(lake, now),
        "run_failed": lambda: [
            State(
                subject=job,
                value=float(len(failed)),
                row={"cluster": None, "runs": list(failed[:5])},
                at=now,
                shows_recovery=job not in without_success,
            )
            for job, failed in failed_runs.items()
        ],
    }
    alerts: list[Alert] = []
    untrue: dict[tuple[str, str], datetime] = {}
    proofs: dict[tuple[str, str], datetime] = {}
    for rule in rules:
        if rule.kind in states:
            for state in states[rule.kind]():
                (applied,) = rule.applied_rules()
                if fits(applied.matches[0], state.row):
                    if state.exceeds(applied.threshold):
                        alerts.append(_alert(rule, state))
                    elif state.shows_recovery:
                        untrue[rule.name, state.subject] = state.at
                        if state.proof_at:
                            proofs[rule.name, state.subject] = state.proof_at
    return Evaluation(
        observed_at=now,
        cluster=None,
        alerts=tuple(alerts),
        untrue=frozenset(untrue),
        untrue_at=untrue,
        proof_at=proofs,
    )


@dataclass(frozen=True, kw_only=True)
class State:
    """The state of one monitored subject.

    Attributes:
        subject: name of the subject.
        value: the number that rules compare; None where it could not be computed.
        row: the columns that the value comes from.
        at: when the value was determined. A second evaluation is no second observation.
        allowed: excess of the value over the threshold of a rule that is allowed.
        shows_recovery: whether a value below the threshold proves that a rule is untrue; otherwise
            that stays unknown.
        proof_at: the instant of what proves it, where that may be older than an incident.
    """

    subject: str
    value: float | None
    row: dict[str, Any]
    at: datetime
    allowed: float = 0.0
    shows_recovery: bool = True
    proof_at: datetime | None = None

    def exceeds(self, threshold: float) -> bool:
        """Return whether the value is above the threshold of a rule; one not computed is."""
        return self.value is None or self.value - self.allowed > threshold


def _ages(
    lake: Lake,
    now: datetime,
    since: datetime,
    removed_clusters: Collection[str],
    landed_at: Mapping[str, datetime],
    allowed: float,
) -> Iterable[State]:
    """Yield the age in seconds of the newest snapshot of each cluster computed within a day.

    Where a landed snapshot is newer, its age counts: the cluster is not late. But only a computed
    snapshot shows that the cluster is monitored again.

    A cluster without a snapshot for longer is absent, so its incident stays open. Without any
    cluster, the age counts from the newest snapshot of all, or from the start of the monitoring.
    """
    rows = lake.read(SNAPSHOTS, Window(now - MEMORY, now), columns=("cluster", "observed_at"))
    for row in rows.group_by("cluster").aggregate([("observed_at", "max")]).to_pylist():
        if row["cluster"] in removed_clusters:
            continue
        computed_at = row["observed_at_max"]
        state = State(
            subject=row["cluster"],
            value=(now - computed_at).total_seconds(),
            row={"cluster": row["cluster"], "newest_at": computed_at.isoformat()},
            at=now,
            allowed=allowed,
            # A tick that took long allows for more, and shows nothing new by it.
            proof_at=computed_at,
        )
        at = landed_at.get(row["cluster"], computed_at)
        yield state if at <= computed_at else _of_landed(state, at, now)
    if rows.num_rows:
        yield State(subject=PIPELINE, value=0.0, row={"cluster": None, "newest_at": None}, at=now)
        return
    landed = max(landed_at.values(), default=None)
    newest = None if landed else _newest_before(lake, now - MEMORY, since)
    age = (now - (newest or since)).total_seconds()
    columns = {"cluster": None, "newest_at": newest.isoformat() if newest else None}
    state = State(subject=PIPELINE, value=age, row=columns, at=now, allowed=allowed)
    yield _of_landed(state, landed, now) if landed else state


def _of_landed(state: State, landed_at: datetime, now: datetime) -> State:
    """Return the state of a snapshot that has landed and waits for the present run."""
    return replace(
        state,
        value=(now - landed_at).total_seconds(),
        row=state.row | {"newest_at": landed_at.isoformat()},
        allowed=0.0,
        shows_recovery=False,
    )


def _newest_before(lake: Lake, end: datetime, since: datetime) -> datetime | None:
    """Return the instant of the newest computed snapshot from `since` to `end`.

    The search proceeds backwards day by day, as most days have no file.
    """
    while end > since:
        start = max(end - DAY, since)
        result = lake.read(SNAPSHOTS, Window(start, end), columns=("observed_at",))
        if result.num_rows:
            return max(result["observed_at"].to_pylist())
        end = start
    return None


def _validation_results(lake: Lake, now: datetime) -> Iterable[State]:
    """Yield the newest validation result of each expectation within the hour.

    Only the first validation of rows counts: a backfill or an audit by hand repeats it, which is no
    further observation. A result of no rows does not count either, as the cluster may be
    unreachable. The instant is that of the rows, so a repetition does not change it.
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
        yield State(subject=f"{table}/{expectation}", value=value, row=columns, at=at)


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
