"""Verdicts on the incidents that fired. Pure: from rows to tables in Markdown."""

import json
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from bench import report
from bench.alarms.clusters import HEALTHY_CLUSTER, SICK_CLUSTER, Span
from bench.alarms.consumers import Consumer
from bench.alarms.faults import Fault

SETTLED = timedelta(minutes=2)
"""Time after an event in which an incident may rightly fire about it."""


@dataclass(frozen=True, kw_only=True)
class Firing:
    """An incident that fired, once; one that reopens fires again.

    Attributes:
        rule: which.
        cluster: of the subject; empty where the subject is Tidemark itself.
        group: that it is about, or the topic; empty where it is about neither.
        subject: of the incident.
        at: the observation at which it fired.
        until: when it resolved; None if it still fires.
        value: the newest value of the rule.
        evidence: the newest row for which the rule was true; empty where it has none.
    """

    rule: str
    cluster: str
    group: str
    subject: str
    at: datetime
    until: datetime | None
    value: float | None
    evidence: Mapping[str, Any]


def firings(incidents: Iterable[Mapping[str, Any]]) -> list[Firing]:
    """Return every firing of rows of `alerting.incidents`, in order of time."""
    entries = []
    for row in incidents:
        cluster = row["cluster"] or ""
        # The subject does not show it: a broker's has as many parts as a group's.
        evidence = json.loads(row["evidence"] or "{}").get("row") or {}
        ends = [
            transition["at"]
            for transition in row["transitions"]
            if "RESOLVED" in transition["transition"]
        ]
        for transition in row["transitions"]:
            if not transition["transition"].startswith("FIRING"):
                continue
            entries.append(
                Firing(
                    rule=row["rule"],
                    cluster=cluster,
                    group=evidence.get("consumer_group") or evidence.get("topic") or "",
                    subject=row["subject"],
                    at=transition["at"],
                    until=min((end for end in ends if end >= transition["at"]), default=None),
                    value=row["last_value"],
                    evidence=evidence,
                )
            )
    return sorted(entries, key=lambda firing: firing.at)


def false_alarms(fired: Iterable[Firing], spans: Sequence[Span]) -> list[Firing]:
    """Return false alarms: firings about healthy consumers, or wrong ones about Tidemark."""
    return [
        firing
        for firing in fired
        if firing.cluster in ("", HEALTHY_CLUSTER)
        and not any(
            firing.rule in span.rules and span.start <= firing.at <= span.end + SETTLED
            for span in spans
        )
    ]


def healthy_table(consumers: Sequence[Consumer], false: Sequence[Firing]) -> str:
    """Return a row for each healthy group: its habit, and the number of incidents that fired."""
    rows = [
        [
            f"`{consumer.name}`",
            consumer.mode,
            consumer.habit,
            sum(firing.group == consumer.name for firing in false),
        ]
        for consumer in consumers
    ]
    rows.append(
        ["", "", "brokers, clusters, Tidemark itself", sum(not firing.group for firing in false)]
    )
    return report.table(["healthy group", "mode", "habit", "false alarms"], rows)


def false_table(false: Sequence[Firing], spans: Sequence[Span], begun: datetime) -> str:
    """One row for each false alarm: rule, subject, when, and why."""
    rows = [
        [
            f"`{firing.rule}`",
            f"`{firing.subject}`",
            f"{(firing.at - begun).total_seconds() / 60:.1f}",
            _meanwhile(firing.at, spans),
            _why(firing),
        ]
        for firing in false
    ]
    return report.table(["rule", "subject", "minute", "after", "why"], rows)


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """The outcome of a fault.

    Attributes:
        fault: the fault.
        began: when it began.
        right: firings of a rule that names it, in order of time.
        others: firings of other rules about the group.
    """

    fault: Fault
    began: datetime
    right: tuple[Firing, ...]
    others: tuple[Firing, ...]

    @property
    def missed(self) -> bool:
        """Whether no rule named it."""
        return not self.right

    def late(self, firing: Firing) -> str:
        """Seconds from the fault to a firing; 0 where the incident was open when it began."""
        return f"{max(0.0, (firing.at - self.began).total_seconds()):.0f}"


def judge(
    faults: Sequence[Fault], began: Mapping[str, datetime], fired: Sequence[Firing]
) -> list[Verdict]:
    """Return a row for each fault: the incidents that fired about its group while it lasted."""
    verdicts = []
    for fault in faults:
        name = fault.consumer.name
        mine = [
            firing
            for firing in fired
            if (firing.cluster, firing.group) == (SICK_CLUSTER, name)
            and (firing.until is None or firing.until > began[name])
        ]
        right = tuple(firing for firing in mine if firing.rule in fault.rules)
        others = tuple(firing for firing in mine if firing.rule not in fault.rules)
        verdicts.append(Verdict(fault=fault, began=began[name], right=right, others=others))
    return verdicts


def sick_table(verdicts: Iterable[Verdict], rules: Set[str]) -> str:
    """One row for each fault: the rule that named it and how late, or that none did.

    Args:
        verdicts: of all faults.
        rules: the names of all rules.
    """
    rows = []
    for verdict in verdicts:
        fault = verdict.fault
        no_rule = ": no such rule" if rules.isdisjoint(fault.rules) else ""
        first = f"`{verdict.right[0].rule}`" if verdict.right else f"**missed**{no_rule}"
        late = verdict.late(verdict.right[0]) if verdict.right else ""
        others = dict.fromkeys(
            f"`{firing.rule}` {verdict.late(firing)}" for firing in verdict.others
        )
        name = f"`{fault.consumer.name}`"
        rows.append([name, _modes(fault), fault.text, first, late, ", ".join(others)])
    return report.table(["group", "mode", "fault", "fired", "late, s", "also fired, s"], rows)


def _modes(fault: Fault) -> str:
    return " + ".join([fault.consumer.mode, *([fault.joined_by] if fault.joined_by else [])])


def _meanwhile(at: datetime, spans: Sequence[Span]) -> str:
    before = [span for span in spans if span.start <= at]
    if not before:
        return "the start"
    last = max(before, key=lambda span: span.start)
    return f"{last.name}, {(at - last.start).total_seconds():.0f} s"


def _why(firing: Firing) -> str:
    row = firing.evidence
    reason = row.get("health_reason") or ""
    numbers = [
        f"{name} {row[name]}"
        for name in ("health", "lag", "delay_ms", "ready_delay_ms", "online", "complete")
        if row.get(name) is not None
    ]
    value = "" if firing.value is None else f"value {firing.value:g}; "
    return f"{value}{', '.join(numbers)}; {reason}".strip("; ").replace("|", "/")
