"""Thresholds that the stored history suggests: what each would have fired, by replay."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from tidemark.alerting.incidents.incident import Incident
from tidemark.alerting.rules.kinds import PIPELINE
from tidemark.alerting.rules.model import Rule

FACTORS = (0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0)
"""Thresholds that are tried, in times of the present one."""

UNITS = ("messages", "seconds", "")
"""Units of thresholds that may be multiplied; a share may not."""

LEAST_HOURS = 24
"""Fewest computed hours that a suggestion rests on."""


@dataclass(frozen=True, kw_only=True)
class Candidate:
    """A rule with another threshold.

    Attributes:
        rule: the rule that is replayed, whose name is unique among all candidates.
        of: name of the rule that it is made from.
        threshold: its threshold, in the unit of the kind.
        is_present: whether that is the present threshold.
    """

    rule: Rule
    of: str
    threshold: float
    is_present: bool


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """How often a rule would have fired with a threshold.

    Attributes:
        rule: its name.
        threshold: the threshold, in the unit of the kind.
        unit: of the threshold.
        fired: how often incidents would have fired; one that reopens fires again.
        per_week: the same in a week, of the computed hours; None over fewer than `LEAST_HOURS`.
        subjects: how many subjects these are about.
        is_present: whether it is the present threshold.
        is_suggested: whether it is the most sensitive one that fires as seldom as is wanted.
    """

    rule: str
    threshold: float
    unit: str
    fired: int
    per_week: float | None
    subjects: int
    is_present: bool
    is_suggested: bool


def candidates(rules: Iterable[Rule]) -> list[Candidate]:
    """Return the rules with each of `FACTORS`; only rules whose threshold may be multiplied.

    Overrides keep the thresholds that they have.
    """
    made: list[Candidate] = []
    for rule in rules:
        threshold, kind = getattr(rule, "threshold", None), rule.kind_definition
        if kind.source == PIPELINE or kind.unit not in UNITS or not threshold:
            continue
        for factor in FACTORS:
            tried = threshold * factor
            name = f"{rule.name}@{factor:g}"
            made.append(
                Candidate(
                    rule=rule.model_copy(update={"name": name, "threshold": tried}),
                    of=rule.name,
                    threshold=tried,
                    is_present=factor == 1.0,
                )
            )
    return made


def outcomes(
    tried: Sequence[Candidate], incidents: Iterable[Incident], hours: int, most_a_week: float
) -> list[Outcome]:
    """Return what each candidate would have fired, by rule and from the most sensitive on.

    Args:
        tried: the candidates.
        incidents: those of their replay.
        hours: computed hours of the replayed time.
        most_a_week: incidents of a rule that are wanted in a week at most. Nothing is suggested
            where even the least sensitive candidate fires more often.
    """
    fired: dict[str, list[str]] = defaultdict(list)
    for incident in incidents:
        if incident.fired_at is not None:
            fired[incident.rule] += [incident.subject] * (1 + incident.reopened)
    weeks = hours / (24 * 7) if hours >= LEAST_HOURS else None
    by_rule: dict[str, list[Candidate]] = defaultdict(list)
    for candidate in tried:
        by_rule[candidate.of].append(candidate)
    result: list[Outcome] = []
    for name, of_rule in by_rule.items():
        kind = of_rule[0].rule.kind_definition
        of_rule.sort(key=lambda it: it.threshold, reverse=kind.below)
        rates = [weeks and len(fired[it.rule.name]) / weeks for it in of_rule]
        suggested = next(
            (n for n, rate in enumerate(rates) if rate is not None and rate <= most_a_week), None
        )
        result += [
            Outcome(
                rule=name,
                threshold=candidate.threshold,
                unit=kind.unit,
                fired=len(fired[candidate.rule.name]),
                per_week=rates[number],
                subjects=len(set(fired[candidate.rule.name])),
                is_present=candidate.is_present,
                is_suggested=number == suggested,
            )
            for number, candidate in enumerate(of_rule)
        ]
    return result
