"""The weekly report: budgets of objectives, the worst groups and the noisiest rules of a week.

It is computed from stored tables alone, so the report of any kept week can be made again. Time that
nobody observed, and observations without a state of health, count as unknown: they are neither good
nor bad, and what they could raise is marked as a bound.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import groupby, pairwise
from typing import Any

import pyarrow as pa
from pyiceberg.expressions import IsNull

from tidemark.alerting.incidents.incident import Incident
from tidemark.lake.bounds import Bound, bound_in_sql, columns_with_marks
from tidemark.lake.catalog import Lake
from tidemark.lake.clocks import Week, Window
from tidemark.lake.damaged_files import damaged
from tidemark.lake.schema import DOUBLE, STRING, TIMESTAMP, any_of, not_before
from tidemark.lake.tables import progress
from tidemark.lake.tables.alerting import INCIDENTS
from tidemark.lake.typed_rows import typed_rows
from tidemark.model.health import TROUBLE, Health
from tidemark.model.incidents import TransitionKind
from tidemark.planning.objectives import CARRIED, statements_of
from tidemark.settings.owners import Owners

MOST = 10
"""Objectives, groups and rules of a report at most."""

CARRIES = timedelta(minutes=CARRIED)
"""Time for which an observation speaks at most; after it nothing is known until the next."""


@dataclass(frozen=True, kw_only=True)
class Budget:
    """An objective of a group on a topic in the week; times are minutes.

    Attributes:
        cluster: the cluster.
        consumer_group: the group.
        topic: the topic.
        objective: name of the objective.
        met: whether it was met; None where the unknown minutes decide.
        good: minutes within the limit.
        bad: minutes above it.
        unknown: all others.
        allowed: minutes that may be bad.
        left: allowed minutes that are left; below 0 where there were more.
        left_bound: upper where unknown minutes may have used more.
    """

    cluster: str
    consumer_group: str
    topic: str
    objective: str
    met: bool | None
    good: int
    bad: int
    unknown: int
    allowed: float
    left: float
    left_bound: Bound | None


@dataclass(frozen=True, kw_only=True)
class GroupWeek:
    """A group on a topic in the week; times are seconds.

    Attributes:
        cluster: the cluster.
        consumer_group: the group.
        topic: the topic.
        trouble_seconds: time in a state of health that needs a person.
        trouble_bound: lower where some time is unknown.
        worst: the state in which it was longest of these; None without any.
        unknown_seconds: time without a known state of health.
        delay_ms: longest delay, milliseconds; None where none is known.
        delay_bound: lower where some delay is unknown or a lower bound.
    """

    cluster: str
    consumer_group: str
    topic: str
    trouble_seconds: float
    trouble_bound: Bound | None
    worst: Health | None
    unknown_seconds: float
    delay_ms: float | None
    delay_bound: Bound | None


@dataclass(frozen=True, kw_only=True)
class RuleWeek:
    """The incidents of a rule in the week.

    Attributes:
        rule: name of the rule.
        severity: of its newest incident.
        fired: how often one of its incidents fired.
        resolved: how often one resolved.
        flapped: incidents that fired more than once.
        subjects: subjects of which it fired.
    """

    rule: str
    severity: str
    fired: int
    resolved: int
    flapped: int
    subjects: int


@dataclass(frozen=True, kw_only=True)
class Report:
    """The content of a weekly report.

    Attributes:
        week: the week.
        until: its end, or the present where it is not over.
        team: the team whose groups it is about; None for all.
        unobserved_seconds: time without a snapshot, by cluster.
        missed: objectives that were missed.
        undecided: objectives of which the unknown minutes decide.
        objectives: number of objectives of groups on topics.
        budgets: the worst of them, those with the least left first.
        in_trouble: groups on topics that were in trouble.
        groups: the worst of them, or of those with the longest delay; the longest in trouble first.
        fired: how often a rule fired.
        noisy: rules that fired or resolved.
        rules: the noisiest of them.
    """

    week: Week
    until: datetime
    team: str | None
    unobserved_seconds: dict[str, float]
    missed: int
    undecided: int
    objectives: int
    budgets: tuple[Budget, ...]
    in_trouble: int
    groups: tuple[GroupWeek, ...]
    fired: int
    noisy: int
    rules: tuple[RuleWeek, ...]

    @property
    def is_known(self) -> bool:
        """Whether anything is known of objectives and groups."""
        return bool(self.unobserved_seconds or self.objectives)


def weekly_report(
    lake: Lake, week: Week, now: datetime, owners: Owners, team: str | None = None
) -> Report:
    """Return the report of a week.

    Args:
        lake: the tables.
        week: the week; of one that is not over, its time until now.
        now: the present.
        owners: the teams of groups.
        team: the team whose groups it is about; None for all groups.

    Raises:
        DamagedError: a file of a table is missing or damaged.
    """

    def is_shown(cluster: str | None, group: str | None) -> bool:
        return team is None or owners.team_of(cluster, group) == team

    window = Window(week.window.start, max(week.window.start, min(week.window.end, now)))
    budgets = _budgets(lake, week, now, is_shown)
    spoken = _spoken(lake, window)
    groups = _groups(lake, window, spoken, is_shown)
    rules = _rules(lake, window, is_shown)
    return Report(
        week=week,
        until=window.end,
        team=team,
        unobserved_seconds={
            cluster: _length(window) - sum(row["seconds"] for row in rows)
            for cluster, rows in spoken.items()
        },
        missed=sum(budget.met is False for budget in budgets),
        undecided=sum(budget.met is None for budget in budgets),
        objectives=len(budgets),
        budgets=tuple(budgets[:MOST]),
        in_trouble=sum(group.trouble_seconds > 0 for group in groups),
        groups=tuple(groups[:MOST]),
        fired=sum(rule.fired for rule in rules),
        noisy=len(rules),
        rules=tuple(rules[:MOST]),
    )


IsShown = Callable[[str | None, str | None], bool]


def _length(window: Window) -> float:
    return (window.end - window.start).total_seconds()


def _budgets(lake: Lake, week: Week, now: datetime, is_shown: IsShown) -> list[Budget]:
    """Return the objectives of the week, missed ones first, then by what is left."""
    # Hours are counted in UTC; a zone may begin its week within one.
    window = week.window.whole_hours()
    columns = (*progress.OBJECTIVES.key, "measure", "threshold", "target")
    rows = lake.read(progress.OBJECTIVES, window, (*columns, "good", "bad", "minutes"))
    budgets = [
        Budget(
            **{name: row[name] for name in ("cluster", "consumer_group", "topic", "objective")},
            **{name: row[name] for name in ("met", "good", "bad", "unknown", "allowed")},
            left=row["allowed"] - row["bad"],
            left_bound=Bound.UPPER if row["unknown"] else None,
        )
        for row in statements_of(rows, window, now).to_pylist()
        if is_shown(row["cluster"], row["consumer_group"])
    ]
    budgets.sort(
        key=lambda it: (
            *(it.met is not False, it.met is True, it.left / (it.allowed or 1), -it.unknown),
            *(it.cluster, it.consumer_group, it.topic, it.objective),
        )
    )
    return budgets


def _spoken(lake: Lake, window: Window) -> dict[str, list[dict[str, Any]]]:
    """Return by cluster the instants of snapshots, and the ``seconds`` that each speaks for.

    A snapshot speaks until the next one of its cluster, for `CARRIES` at most, and for the part of
    that time that lies in the window.
    """
    if window.empty:
        return {}
    reach = Window(window.start - CARRIES, window.end)
    rows = lake.read(progress.SNAPSHOTS, reach, ("cluster", "observed_at")).to_pylist()
    seen = sorted({(row["cluster"], row["observed_at"]) for row in rows})
    result: dict[str, list[dict[str, Any]]] = {}
    for cluster, of_cluster in groupby(seen, lambda pair: pair[0]):
        instants = [at for _, at in of_cluster]
        result[cluster] = [
            {
                "cluster": cluster,
                "observed_at": at,
                "seconds": max(
                    0.0,
                    (
                        min(following, at + CARRIES, window.end) - max(at, window.start)
                    ).total_seconds(),
                ),
            }
            for at, following in pairwise([*instants, window.end])
        ]
    return result


_SPOKEN = pa.schema([("cluster", STRING), ("observed_at", TIMESTAMP), ("seconds", DOUBLE)])

_DELAY = "delay_ms"

_BY_HEALTH = f"""
SELECT cluster, consumer_group, topic, health, sum(seconds) AS seconds,
    max({_DELAY}) FILTER (seconds > 0) AS {_DELAY},
    bool_or({_DELAY} IS NULL OR ({bound_in_sql(_DELAY)}) IS NOT NULL) AS is_bound
FROM rows JOIN spoken USING (cluster, observed_at)
GROUP BY ALL
"""


def _groups(
    lake: Lake,
    window: Window,
    spoken: dict[str, list[dict[str, Any]]],
    is_shown: IsShown,
) -> list[GroupWeek]:
    """Return the groups on topics, those that were in trouble longest first."""
    weights = pa.Table.from_pylist([row for rows in spoken.values() for row in rows], _SPOKEN)
    if not weights.num_rows:
        return []
    rows = _by_health(lake, Window(window.start - CARRIES, window.end), weights)
    rows.sort(key=_subject)
    unobserved = {
        cluster: _length(window) - sum(row["seconds"] for row in of_cluster)
        for cluster, of_cluster in spoken.items()
    }
    groups = [
        _group_week(list(of_group), unobserved[subject[0]])
        for subject, of_group in groupby(rows, _subject)
        if is_shown(*subject[:2])
    ]
    groups = [group for group in groups if group.trouble_seconds or group.delay_ms]
    groups.sort(
        key=lambda group: (-group.trouble_seconds, -(group.delay_ms or 0), -group.unknown_seconds)
    )
    return groups


def _subject(row: dict[str, Any]) -> tuple[str, str, str]:
    return row["cluster"], row["consumer_group"], row["topic"]


def _by_health(lake: Lake, window: Window, spoken: pa.Table) -> list[dict[str, Any]]:
    """Return one row a group, topic and state; the rows of the week are streamed."""
    # Definitions load this module. A process that forks must not have imported DuckDB, which would
    # report leaks at the end of each fork.
    import duckdb

    from tidemark.lake.query import ISOLATED

    key = ("cluster", "observed_at", "consumer_group", "topic", "health", "complete")
    columns = tuple(dict.fromkeys((*key, *columns_with_marks((_DELAY,)))))
    with lake.scanned(progress.GROUPS, window, selected_fields=columns) as scan:
        stream = scan.to_arrow_batch_reader()
    with duckdb.connect() as session:
        session.register("rows", stream)
        session.register("spoken", spoken)
        for setting in ISOLATED:
            session.execute(setting)
        try:
            return session.sql(_BY_HEALTH).to_arrow_table().to_pylist()
        except duckdb.Error as error:
            raise damaged(progress.GROUPS.name, str(error)) from error


def _group_week(rows: Sequence[dict[str, Any]], unobserved: float) -> GroupWeek:
    """Return the week of a group on a topic.

    Args:
        rows: one a state of health.
        unobserved: seconds without a snapshot of its cluster.
    """
    seconds = {row["health"] or Health.UNKNOWN: row["seconds"] for row in rows}
    trouble = {state: lasted for state, lasted in seconds.items() if state in TROUBLE and lasted}
    unknown = seconds.get(Health.UNKNOWN, 0.0) + unobserved
    delays = [row[_DELAY] for row in rows if row[_DELAY] is not None]
    is_bound = unobserved > 0 or any(row["is_bound"] for row in rows)
    cluster, consumer_group, topic = _subject(rows[0])
    return GroupWeek(
        cluster=cluster,
        consumer_group=consumer_group,
        topic=topic,
        trouble_seconds=sum(trouble.values()),
        trouble_bound=Bound.LOWER if unknown else None,
        worst=Health(max(trouble, key=lambda state: trouble[state])) if trouble else None,
        unknown_seconds=unknown,
        delay_ms=max(delays, default=None),
        delay_bound=Bound.LOWER if delays and is_bound else None,
    )


def _rules(lake: Lake, window: Window, is_shown: IsShown) -> list[RuleWeek]:
    """Return the rules that fired or resolved, the noisiest first."""
    # Every transition writes the row of its incident.
    written = any_of(not_before("written_at", window.start), IsNull("written_at"))  # pyright: ignore
    incidents = [
        incident
        for incident in typed_rows(lake.read(INCIDENTS, written), Incident)
        if is_shown(incident.cluster, incident.row.get("consumer_group"))
    ]
    incidents.sort(key=lambda incident: (incident.rule, incident.opened_at))
    rules = [
        rule
        for name, of_rule in groupby(incidents, lambda incident: incident.rule)
        if (rule := _rule_week(name, list(of_rule), window)).fired or rule.resolved
    ]
    rules.sort(key=lambda rule: (-rule.fired, -rule.flapped, -rule.resolved, rule.rule))
    return rules


def _rule_week(name: str, incidents: Sequence[Incident], window: Window) -> RuleWeek:
    def times(incident: Incident, kind: TransitionKind) -> int:
        return sum(it.kind == kind and it.at in window for it in incident.transitions)

    fired = {it.incident_id: times(it, TransitionKind.FIRING) for it in incidents}
    return RuleWeek(
        rule=name,
        severity=incidents[-1].severity,
        fired=sum(fired.values()),
        resolved=sum(times(it, TransitionKind.RESOLVED) for it in incidents),
        flapped=sum(count > 1 for count in fired.values()),
        subjects=len({it.subject for it in incidents if fired[it.incident_id]}),
    )
