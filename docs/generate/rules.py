"""The pages of alert rule kinds and of the ready-made rules."""

from typing import Any, get_args

from docs.generate.markdown import code, page, table
from tidemark.alerting.rules.base import BaseRule
from tidemark.alerting.rules.files import DEFAULT_RULES, load_rules
from tidemark.alerting.rules.kinds import KINDS, Kind
from tidemark.alerting.rules.model import Rule

ROWS = {
    "groups": "each group on each topic (`progress.groups`)",
    "topics": "each topic over all brokers (`progress.topics`)",
    "brokers": "each broker address (`raw.brokers`)",
    "snapshots": "each snapshot (`raw.snapshots`)",
    "pipeline": "Tidemark's own work, by the clock",
}
"""Source of a kind to the rows on which its rules are evaluated."""


def kinds_page() -> str:
    """Return the page of every alert rule kind, with the fields that a rule of it takes."""
    parts = [part for name, kind in KINDS.items() for part in _kind(name, kind)]
    return page(
        "Alert rule kinds",
        "The kind of a rule decides which number is compared with the threshold. "
        "[Alerts](../alerts.md) explains the fields that all kinds share.",
        *parts,
    )


def rules_page() -> str:
    """Return the page of the ready-made rules, each with its runbook."""
    rows = [
        (
            f"[{rule.name}](../runbooks/{rule.name}.md)",
            code(rule.kind),
            rule.severity,
            _threshold(rule),
            rule.description,
        )
        for rule in load_rules(DEFAULT_RULES)
    ]
    return page(
        "Ready-made rules",
        "The rules of `tidemark/alerting/rules/ready_made/default.yaml`. They hold unless "
        "`TIDEMARK_RULES` names other rules.",
        table(("rule", "kind", "severity", "threshold", "description"), rows),
    )


def fields_of(kind: str) -> dict[str, Any]:
    """Return the fields of rules of a kind besides those of every rule, name to its field."""
    (model,) = (
        arg for arg in get_args(get_args(Rule)[0]) if kind in _kinds(arg.model_fields["kind"])
    )
    return {
        field.alias or name: field
        for name, field in model.model_fields.items()
        if name not in BaseRule.model_fields
    }


def _kinds(field: Any) -> tuple[str, ...]:
    return get_args(field.annotation)


def _kind(name: str, kind: Kind) -> list[str]:
    unit = f" in {kind.unit}" if kind.unit else ""
    threshold = fields_of(name).get("threshold")
    facts = [
        ("evaluated on", ROWS[kind.source]),
        ("value", f"{code(kind.value)}{unit}" if kind.value else f"the number of the rule{unit}"),
        ("true", "below the threshold" if kind.below else "above the threshold"),
        ("fires after", f"{kind.for_observations} observations in a row, unless `for` is set"),
        ("message", kind.words.replace("{value}", "N")),
        ("next step", kind.hint),
    ]
    if threshold is not None:
        default = "required" if threshold.is_required() else f"{threshold.default:g} unless set"
        facts.insert(3, ("threshold", default))
    own = [field for field in fields_of(name) if field != "threshold"]
    if own:
        facts.append(("further fields", ", ".join(map(code, own))))
    return [f"## {name}", table(("", ""), [row for row in facts if row[1]])]


def _threshold(rule: BaseRule) -> str:
    unit, limit = KINDS[rule.kind].unit, rule.limit
    if unit == "seconds":
        return f"{limit / 60:g} minutes"
    if unit == "share":
        return f"{limit:.0%}"
    return f"{limit:,.0f}{f' {unit}' if unit else ''}" if limit else ""
