"""Rule files: the rules of a valid file, and the line of each mistake."""

from datetime import timedelta
from pathlib import Path

import jsonschema
import pytest
import yaml

from tidemark.alerting.rules.files import DEFAULT_RULES, RuleError, load_rules, schema, valid_rules
from tidemark.alerting.rules.kinds import KINDS
from tidemark.settings.fields import Span

GOOD = """\
rules:
  - name: orders-lag
    kind: lag
    threshold: 100
"""


def write(folder: Path, text: str | bytes, name: str = "team.yaml") -> Path:
    file = folder / name
    file.write_bytes(text if isinstance(text, bytes) else text.encode())
    return file


def mistakes(path: Path, folder: Path) -> list[str]:
    """The lines of the error, without the test's own folder."""
    with pytest.raises(RuleError) as caught:
        load_rules(path)
    lines = str(caught.value).split("\n")
    assert lines == list(caught.value.mistakes)
    return [line.replace(f"{folder}/", "") for line in lines]


def test_the_ready_made_rules_cover_every_kind() -> None:
    rules = load_rules(DEFAULT_RULES)
    assert {rule.kind for rule in rules} >= KINDS.keys() - {"column"}
    assert all(rule.description for rule in rules)


def test_every_kind_has_a_likely_cause_and_next_step() -> None:
    """But for `column`: an arbitrary number has no hint."""
    assert {name for name, kind in KINDS.items() if not kind.hint} == {"column"}


def test_omitted_fields_have_defaults(tmp_path: Path) -> None:
    text = """\
rules:
  - {name: a, kind: lag, threshold: 100}
  - {name: b, kind: nobody_online, severity: critical, for: 10m, match: {topic: "orders-*"}}
  - {name: c, kind: lost, clear_for: 1, match: {consumer_group: [g-a, g-b], cluster: prod}}
  - {name: d, kind: broker_down, runbook: "https://wiki/broker", match: {broker: "broker-?"}}
  - {name: e, kind: delay, threshold: 1.5h, min_messages: 10, min_age: 30s, labels: {team: x}}
"""
    (lag,), (nobody,), (lost,), (down,), (delay,) = (
        rule.applied_rules() for rule in load_rules(write(tmp_path, text))
    )
    anything = {"cluster": ("*",), "consumer_group": ("*",), "topic": ("*",)}
    assert (lag.threshold, lag.severity, lag.matches) == (100, "warning", (anything,))
    assert (lag.for_, lag.clear_for) == (Span(3), Span(5))
    assert (nobody.threshold, nobody.severity) == (0, "critical")
    assert nobody.for_ == Span(1, timedelta(minutes=10))
    assert nobody.matches == (anything | {"topic": ("orders-*",)},)
    assert (lost.for_, lost.clear_for) == (Span(1), Span(1))
    assert lost.matches[0]["consumer_group"] == ("g-a", "g-b")
    assert (down.threshold, down.rule.runbook) == (0, "https://wiki/broker")
    assert down.matches == ({"cluster": ("*",), "broker": ("broker-?",)},)
    assert (delay.threshold, delay.rule.labels) == (5400, {"team": "x"})
    assert delay.rule.conditions() == ("readable_lag >= 10.0D", "delay_ms >= 30000.0D")


def test_a_rule_has_no_field_that_is_no_number(tmp_path: Path) -> None:
    """Whatever field of whatever rule: one that is let through would fail every tick in SQL."""
    names = ("threshold", "min_messages", "min_age", "for", "clear_for", "above", "below")
    numbers = (".inf", "-.inf", ".nan")
    fields = [(name, number) for name in names for number in numbers]
    for kind in KINDS:
        rules = [
            f"- {{name: rule-{place}, kind: {kind}, {name}: {number}}}\n"
            for place, (name, number) in enumerate(fields)
        ]
        lines = mistakes(write(tmp_path, "rules:\n" + "".join(rules)), tmp_path)
        for place, (name, _) in enumerate(fields):
            start = f"team.yaml:{place + 2}: rules[{place}].{name}: "
            assert any(line.startswith(start) for line in lines), (kind, start)


def test_one_wrong_rule_stops_no_other(tmp_path: Path) -> None:
    write(tmp_path, GOOD + "  - {name: bad, kind: lag}\n", "a.yaml")
    write(tmp_path, "rules: [", "b.yaml")
    write(tmp_path, GOOD.replace("orders-lag", "other"), "c.yaml")
    rules, mistakes = valid_rules(tmp_path)
    assert [rule.name for rule in rules] == ["orders-lag", "other"]
    assert [line.split("/")[-1].split(":")[0] for line in mistakes] == ["a.yaml", "b.yaml"]


def test_the_schema_takes_what_is_good(tmp_path: Path) -> None:
    published = schema()
    document = yaml.safe_load((DEFAULT_RULES / "default.yaml").read_text())
    jsonschema.validate(document, published)
    document["rules"][0]["treshold"] = 5
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(document, published)


def test_a_folder_gives_its_files_in_order_of_name(tmp_path: Path) -> None:
    write(tmp_path, "rules: [{name: second, kind: lost}]", "b.yml")
    write(tmp_path, "rules: [{name: first, kind: lost}]", "a.yaml")
    write(tmp_path, "rules: []", "c.yaml")
    write(tmp_path, "not a rule file", "notes.txt")
    assert [rule.name for rule in load_rules(tmp_path)] == ["first", "second"]


def test_an_anchor_may_be_merged_and_overridden(tmp_path: Path) -> None:
    text = """\
rules:
  - &base {name: a, kind: lag, threshold: 1}
  - {<<: *base, name: b}
"""
    assert [rule.name for rule in load_rules(write(tmp_path, text))] == ["a", "b"]


KNOWN = ", ".join(
    repr(name)
    for name in (
        *("lag", "filtered_lag", "nobody_online", "never_committed", "lost", "losing"),
        *("falling_behind", "stalled", "blocked", "stopped", "retry_growth"),
        *("redelivery", "dlq_growth"),
        *(
            "rewound",
            "delay",
            "ready_delay",
            "soon_lost",
            "contested_queues",
            "unowned_queues",
            "idle_clients",
        ),
        *("inconsistent_subscription", "duplicate_client_ids", "mixed_members"),
        *("unregistered", "throughput_drop", "burn_rate", "unusual", "column"),
        *("unreadable_messages", "dead_letter_age"),
        *("broker_down", "disk", "slave_offsets_behind", "replica_behind", "send_wait"),
        *("failed_writes", "sends_refused", "sends_failed", "light_queues"),
        *("proxy_down", "collection_incomplete"),
        *("collection_late", "quality", "run_failed"),
    )
)

WRONG = {
    "empty file": ("", ["team.yaml:1: empty: write `rules:` and a list of rules"]),
    "only a comment": ("# nothing\n", ["team.yaml:1: empty: write `rules:` and a list of rules"]),
    "not YAML": (
        "rules:\n  - name: a\n   kind: lag\n",
        [
            "team.yaml:3: not YAML: expected <block end>, but found '<block mapping start>'",
        ],
    ),
    "a control character": (
        b"rules: []\n\x00",
        ["team.yaml:2: not YAML: special characters are not allowed"],
    ),
    "not UTF-8": (b"rules:\n  # \xff\n", ["team.yaml:2: not UTF-8"]),
    "two documents": (
        "rules: []\n---\nrules: []\n",
        ["team.yaml:2: not YAML: but found another document"],
    ),
    "a Python object": (
        "rules: !!python/object/apply:os.system [ls]\n",
        [
            "team.yaml:1: not YAML: could not determine a constructor for the tag "
            "'tag:yaml.org,2002:python/object/apply:os.system'"
        ],
    ),
    "nested too deeply": ("[" * 600, ["team.yaml:1: nested too deeply"]),
    "an impossible date": (
        "rules: [{name: 2026-13-99}]",
        ["team.yaml:1: not YAML: month must be in 1..12"],
    ),
    "a list": (
        "- name: a\n",
        ["team.yaml:1: a mapping with `rules:` is wanted here, not a list"],
    ),
    "text": ("hello\n", ["team.yaml:1: a mapping with `rules:` is wanted here, not text"]),
    "no rules": ("rulez: []\n", ["team.yaml:1: rules: missing"]),
    "rules of nothing": (
        "\nrules:\n",
        ["team.yaml:2: rules: a list of rules is wanted, not nothing"],
    ),
    "unknown field at the top": (
        "version: 1\nrules: []\n",
        [
            "team.yaml:1: version: unknown field, only `rules`, `inhibit`, "
            "`receivers`, `time_intervals`, `reports`, `routes` are known here"
        ],
    ),
    "a rule that is no mapping": (
        GOOD + "  - lag\n",
        ["team.yaml:5: rules[1]: a rule is a mapping, not text"],
    ),
    "unknown kind": (
        GOOD.replace("lag\n    t", "lagg\n    t"),
        [f"team.yaml:3: rules[0].kind: unknown kind 'lagg', did you mean 'lag'? known are {KNOWN}"],
    ),
    "unknown kind among other mistakes": (
        "rules:\n  - {name: a b, kind: delai, threshold: 5x, severity: criticl, "
        "match: {topc: o}}\n",
        [
            f"team.yaml:2: rules[0].kind: unknown kind 'delai', did you mean 'delay'? known are "
            f"{KNOWN}",
            "team.yaml:2: rules[0].name: String should match pattern "
            "'^[A-Za-z0-9][A-Za-z0-9._-]*$', not 'a b'",
            "team.yaml:2: rules[0].severity: should be 'critical', 'warning' or 'info', "
            "not 'criticl'",
            "team.yaml:2: rules[0].match.topc: unknown field, did you mean 'topic'?",
            "team.yaml:2: rules[0].threshold: a duration is wanted, e.g. 90s, 5m, 2h or 1d, "
            "not '5x'",
        ],
    ),
    "a kind that is near to none": (
        "rules:\n  - {name: a, kind: zzzz, threshold: 5, severity: criticl, most: 1}\n",
        [
            f"team.yaml:2: rules[0].kind: unknown kind 'zzzz', known are {KNOWN}",
            "team.yaml:2: rules[0].severity: should be 'critical', 'warning' or 'info', "
            "not 'criticl'",
            "team.yaml:2: rules[0].most: unknown field",
        ],
    ),
    "no kind": (
        "rules:\n  - name: a\n    threshold: 1\n",
        ["team.yaml:2: rules[0].kind: missing"],
    ),
    "no name": ("rules:\n  - kind: lost\n", ["team.yaml:2: rules[0].name: missing"]),
    "no threshold": (
        "rules:\n  - name: a\n    kind: lag\n",
        ["team.yaml:2: rules[0].threshold: missing"],
    ),
    "wrong type": (
        GOOD.replace("100", "many"),
        ["team.yaml:4: rules[0].threshold: should be a valid number, not 'many'"],
    ),
    "a number as text": (
        GOOD.replace("100", '"100"'),
        ["team.yaml:4: rules[0].threshold: should be a valid number, not '100'"],
    ),
    "not a number": (
        GOOD.replace("100", ".nan"),
        ["team.yaml:4: rules[0].threshold: should be a finite number, not nan"],
    ),
    "a negative threshold": (
        GOOD.replace("100", "-1"),
        ["team.yaml:4: rules[0].threshold: should be greater than or equal to 0, not -1"],
    ),
    "for no observation": (
        GOOD + "    for: 0\n",
        ["team.yaml:5: rules[0].for: 1 to 10000 observations are wanted, not 0"],
    ),
    "half an observation": (
        GOOD + "    for: 1.5\n",
        [
            "team.yaml:5: rules[0].for: a number of observations (3) or a duration (10m) is "
            "wanted, not 1.5"
        ],
    ),
    "a time without a unit": (
        GOOD + "    clear_for: '10'\n",
        ["team.yaml:5: rules[0].clear_for: a duration is wanted, e.g. 90s, 5m, 2h or 1d, not '10'"],
    ),
    "a time below zero": (
        "rules:\n  - {name: a, kind: delay, threshold: -600}\n",
        ["team.yaml:2: rules[0].threshold: a duration is wanted, e.g. 90s, 5m, 2h or 1d, not -600"],
    ),
    "a time that is no number": (
        "rules:\n  - {name: a, kind: collection_late, threshold: .nan}\n",
        ["team.yaml:2: rules[0].threshold: a duration is wanted, e.g. 90s, 5m, 2h or 1d, not nan"],
    ),
    "an endless age": (
        GOOD + "    min_age: .inf\n",
        ["team.yaml:5: rules[0].min_age: a duration is wanted, e.g. 90s, 5m, 2h or 1d, not inf"],
    ),
    "a negative age": (
        GOOD + "    min_age: -5m\n",
        ["team.yaml:5: rules[0].min_age: a duration is wanted, e.g. 90s, 5m, 2h or 1d, not '-5m'"],
    ),
    "a time that is no number, in an override": (
        "rules:\n  - name: a\n    kind: delay\n    threshold: 5m\n"
        "    overrides:\n      - match: {topic: a}\n        threshold: .nan\n",
        [
            "team.yaml:7: rules[0].overrides[0].threshold: a duration is wanted, "
            "e.g. 90s, 5m, 2h or 1d, not nan"
        ],
    ),
    "an endless limit of a column": (
        "rules:\n  - {name: a, kind: column, column: lag, above: .inf}\n",
        ["team.yaml:2: rules[0].above: should be a finite number, not inf"],
    ),
    "an endless limit of a column, in an override": (
        "rules:\n  - name: a\n    kind: column\n    column: lag\n    above: 5\n"
        "    overrides:\n      - match: {topic: a}\n        threshold: -.inf\n",
        ["team.yaml:8: rules[0].overrides[0].threshold: should be a finite number, not -inf"],
    ),
    "too many messages for a number": (
        GOOD + "    min_messages: 1.0e+400\n",
        ["team.yaml:5: rules[0].min_messages: should be a finite number, not inf"],
    ),
    "a share that is no number": (
        "rules:\n  - {name: a, kind: throughput_drop, threshold: .nan}\n",
        ["team.yaml:2: rules[0].threshold: should be less than 1, not nan"],
    ),
    "a time of centuries": (
        GOOD + "    for: 9999d\n",
        ["team.yaml:5: rules[0].for: a duration of at most 365d is wanted, not '9999d'"],
    ),
    "an hour that there is not": (
        GOOD + "    quiet_hours: {from: '22:00', to: '25:00'}\n",
        [
            "team.yaml:5: rules[0].quiet_hours.to: an hour in quotes is wanted, "
            "e.g. \"22:00\", not '25:00'"
        ],
    ),
    "an hour without quotes": (
        GOOD + "    quiet_hours:\n      from: 22:00\n      to: '07:00'\n",
        [
            "team.yaml:6: rules[0].quiet_hours.from: an hour in quotes is wanted, "
            'e.g. "22:00", not 1320'
        ],
    ),
    "a zone that there is not": (
        GOOD + "    quiet_hours: {from: '22:00', to: '07:00', zone: Mars/Base}\n",
        [
            "team.yaml:5: rules[0].quiet_hours.zone: 'Mars/Base' is no time zone, "
            "write one like UTC or Europe/Berlin"
        ],
    ),
    "a zone that is a path": (
        GOOD + "    quiet_hours: {from: '22:00', to: '07:00', zone: /etc/passwd}\n",
        [
            "team.yaml:5: rules[0].quiet_hours.zone: '/etc/passwd' is no time zone, "
            "write one like UTC or Europe/Berlin"
        ],
    ),
    "labels that are a list": (
        GOOD + "    labels: [a]\n",
        ["team.yaml:5: rules[0].labels: should be a valid dictionary, not ['a']"],
    ),
    "a label that is a number": (
        GOOD + "    labels:\n      team: 5\n",
        ["team.yaml:6: rules[0].labels.team: should be a valid string, not 5"],
    ),
    "overrides that are none": (
        GOOD + "    overrides: 5\n",
        ["team.yaml:5: rules[0].overrides: should be a valid tuple, not 5"],
    ),
    "an override of nothing": (
        GOOD + "    overrides:\n      - threshold: 5\n",
        ["team.yaml:6: rules[0].overrides[0].match: missing"],
    ),
    "a mistake in an override": (
        GOOD + "    overrides:\n      - match: {topic: a}\n        threshold: -1\n",
        [
            "team.yaml:7: rules[0].overrides[0].threshold: should be greater than or equal to 0, "
            "not -1"
        ],
    ),
    "a share above one": (
        "rules:\n  - {name: a, kind: disk, threshold: 85}\n",
        ["team.yaml:2: rules[0].threshold: should be less than 1, not 85"],
    ),
    "no limit to compare with": (
        "rules:\n  - {name: a, kind: column, column: skew}\n",
        ["team.yaml:2: rules[0]: one of `above` and `below` is wanted"],
    ),
    "an overridden broker": (
        "rules:\n  - {name: a, kind: broker_down, overrides: []}\n",
        ["team.yaml:2: rules[0].overrides: unknown field"],
    ),
    "unknown severity": (
        GOOD + "    severity: fatal\n",
        ["team.yaml:5: rules[0].severity: should be 'critical', 'warning' or 'info', not 'fatal'"],
    ),
    "unknown field": (
        GOOD + "    treshold: 5\n",
        ["team.yaml:5: rules[0].treshold: unknown field, did you mean 'threshold'?"],
    ),
    "a threshold for a broker": (
        "rules:\n  - name: a\n    kind: broker_down\n    threshold: 1\n",
        ["team.yaml:4: rules[0].threshold: unknown field"],
    ),
    "unknown field to match": (
        GOOD + "    match:\n      broker: x\n",
        ["team.yaml:6: rules[0].match.broker: unknown field"],
    ),
    "a glob that is a number": (
        GOOD + "    match:\n      topic:\n        - orders\n        - 7\n",
        ["team.yaml:8: rules[0].match.topic[1]: should be a valid string, not 7"],
    ),
    "a match of nothing": (
        GOOD + "    match:\n      topic: []\n",
        ["team.yaml:6: rules[0].match.topic: empty, leave it out to mean everything"],
    ),
    "a runbook that is no address": (
        GOOD + "    runbook: ask Bob\n",
        [
            "team.yaml:5: rules[0].runbook: String should match pattern "
            "'^(https?://\\S+|runbooks/[A-Za-z0-9._-]+\\.md)$', not 'ask Bob'"
        ],
    ),
    "a field written twice": (
        GOOD + "    threshold: 200\n",
        ["team.yaml:5: rules[0].threshold: written twice"],
    ),
    "two rules of one name": (
        GOOD + "  - name: orders-lag\n    kind: lost\n",
        [
            "team.yaml:5: rules[1].name: 'orders-lag' is the name of another rule "
            "(team.yaml:2: rules[0].name)"
        ],
    ),
    "two mistakes": (
        "rules:\n  - name: a\n    kind: lag\n    threshold: -5\n  - name: b\n    kind: lots\n",
        [
            "team.yaml:4: rules[0].threshold: should be greater than or equal to 0, not -5",
            "team.yaml:6: rules[1].kind: unknown kind 'lots', did you mean 'lost'? known are "
            f"{KNOWN}",
        ],
    ),
}


@pytest.mark.parametrize(("text", "expected"), WRONG.values(), ids=WRONG.keys())
def test_each_mistake_is_one_line_with_its_place(
    tmp_path: Path, text: str | bytes, expected: list[str]
) -> None:
    assert mistakes(write(tmp_path, text), tmp_path) == expected


def test_an_unusable_column_is_named_with_usable_ones(tmp_path: Path) -> None:
    text = "rules:\n  - {name: a, kind: column, column: topic, above: 1}\n"
    (line,) = mistakes(write(tmp_path, text), tmp_path)
    assert line.startswith(
        "team.yaml:2: rules[0].column: 'topic' is no number of progress.groups, those are lag, "
    )


def test_the_corpus_is_of_a_size() -> None:
    assert len(WRONG) >= 40


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    expected = ["absent.yaml: cannot be read: No such file or directory"]
    assert mistakes(tmp_path / "absent.yaml", tmp_path) == expected


def test_a_folder_without_rules_is_named(tmp_path: Path) -> None:
    (tmp_path / "rules").mkdir()
    expected = ["rules: no rule file (*.yaml) in this folder"]
    assert mistakes(tmp_path / "rules", tmp_path) == expected


def test_mistakes_of_all_files_are_reported_at_once(tmp_path: Path) -> None:
    write(tmp_path, GOOD, "a.yaml")
    write(tmp_path, GOOD + "    runbook: 5\n", "b.yaml")
    write(tmp_path, GOOD, "c.yaml")
    write(tmp_path, "", "d.yaml")
    assert mistakes(tmp_path, tmp_path) == [
        "b.yaml:5: rules[0].runbook: should be a valid string, not 5",
        "d.yaml:1: empty: write `rules:` and a list of rules",
        "c.yaml:2: rules[0].name: 'orders-lag' is the name of another rule "
        "(a.yaml:2: rules[0].name)",
    ]
