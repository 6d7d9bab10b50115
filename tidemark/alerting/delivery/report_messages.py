"""Weekly reports as text in the language of a receiver, and as JSON."""

from collections.abc import Iterable, Sequence
from dataclasses import asdict
from typing import Any

from tidemark.alerting.delivery.messages import Phrase, first_short_enough, harmless, in_english
from tidemark.alerting.weekly_report import Budget, GroupWeek, Report, RuleWeek
from tidemark.lake.bounds import Bound, marked
from tidemark.settings.times import in_words

SIZES = (10, 5, 3, 1)
"""Lines of a part, fewer where a service has less room."""

MINUTE = 60


def report_title(report: Report, phrase: Phrase = in_english) -> str:
    """Return the title of a report in one line."""
    team = f" {report.team}" if report.team else ""
    # Without a snapshot, counts of zero would calm people about what nobody knows.
    counts = phrase("no snapshot was taken")
    if report.is_known:
        counts = phrase(
            "objectives missed: {missed}, undecided: {undecided}; groups in trouble: {groups}; "
            "alerts: {fired}",
            missed=report.missed,
            undecided=report.undecided,
            groups=report.in_trouble,
            fired=report.fired,
        )
    return harmless(f"Tidemark {report.week.name}{team}: {counts}")


def report_body(report: Report, phrase: Phrase = in_english, room: int | None = None) -> str:
    """Return the text of a report; with as many lines a part as take at most `room` bytes."""
    texts = ("\n".join(_lines(report, phrase, most)) for most in SIZES)
    return harmless(first_short_enough(texts, room))


def report_document(report: Report) -> dict[str, Any]:
    """Return a report as JSON has it: durations in the unit of their name, instants in UTC."""
    content = asdict(report) | {"week": report.week.name, "zone": report.week.zone.key}
    return content | {"since": report.week.window.start}


def _lines(report: Report, phrase: Phrase, most: int) -> Iterable[str]:
    zone = report.week.zone
    since, until = (
        f"{at.astimezone(zone):%Y-%m-%d %H:%M}" for at in (report.week.window.start, report.until)
    )
    yield phrase("{since} to {until} ({zone})", since=since, until=until, zone=zone.key)
    for cluster, seconds in report.unobserved_seconds.items():
        if seconds:
            yield phrase(
                "{cluster}: nothing is known of {time}", cluster=cluster, time=in_words(seconds)
            )
    if report.is_known:
        yield from _states(report, phrase, most)
    else:
        yield phrase("No snapshot was taken: nothing is known of objectives and groups.")
    yield ""
    yield (
        phrase("Alerts: {count}, by rule", count=report.fired)
        if report.fired
        else phrase("No alert fired.")
    )
    yield from _some((_rule(it, phrase) for it in report.rules), most, report.noisy)


def _states(report: Report, phrase: Phrase, most: int) -> Iterable[str]:
    """Yield the lines about objectives and groups."""
    yield ""
    of_all = phrase(
        "Objectives: {count}, missed: {missed}, undecided: {undecided}",
        count=report.objectives,
        missed=report.missed,
        undecided=report.undecided,
    )
    yield of_all if report.objectives else phrase("No objective was counted.")
    yield from _some((_budget(it, phrase) for it in report.budgets), most, report.objectives)
    yield ""
    yield (
        phrase("Groups in trouble: {count}", count=report.in_trouble)
        if report.in_trouble
        else phrase("No group was in trouble, as far as it is known.")
    )
    yield from _some(
        (_group(it, phrase) for it in report.groups),
        most,
        max(report.in_trouble, len(report.groups)),
    )


def _some(lines: Iterable[str], most: int, count: int) -> Iterable[str]:
    shown: Sequence[str] = list(lines)[:most]
    yield from (f"- {line}" for line in shown)
    if count > len(shown):
        yield f"- +{count - len(shown)}"


def _minutes(minutes: float, bound: Bound | None = None) -> str:
    return marked(in_words(MINUTE * minutes), bound)


def _budget(budget: Budget, phrase: Phrase) -> str:
    verdict = {True: "kept", False: "missed", None: "undecided"}[budget.met]
    return phrase(
        "{objective}, {group}: {verdict}; {left} of {allowed} left; good {good}, bad {bad}, "
        "unknown {unknown}",
        objective=budget.objective,
        group=_name(budget),
        verdict=phrase(verdict),
        left=_minutes(budget.left, budget.left_bound),
        allowed=_minutes(budget.allowed),
        good=_minutes(budget.good),
        bad=_minutes(budget.bad),
        unknown=_minutes(budget.unknown),
    )


def _group(group: GroupWeek, phrase: Phrase) -> str:
    parts = []
    if group.worst:
        lasted = marked(in_words(group.trouble_seconds), group.trouble_bound)
        parts.append(phrase("{time} in trouble", time=lasted))
        parts.append(phrase("longest {state}", state=phrase(group.worst)))
    delay = "?" if group.delay_ms is None else in_words(group.delay_ms / 1000)
    parts.append(phrase("delay up to {delay}", delay=marked(delay, group.delay_bound)))
    if group.unknown_seconds:
        parts.append(phrase("unknown {unknown}", unknown=in_words(group.unknown_seconds)))
    return f"{_name(group)}: {phrase(', ').join(parts)}"


def _rule(rule: RuleWeek, phrase: Phrase) -> str:
    return phrase(
        "{rule}: fired {fired}, resolved {resolved}, flapped {flapped}, subjects {subjects}",
        rule=rule.rule,
        fired=rule.fired,
        resolved=rule.resolved,
        flapped=rule.flapped,
        subjects=rule.subjects,
    )


def _name(of: Budget | GroupWeek) -> str:
    return f"{of.cluster}/{of.consumer_group}/{of.topic}"
