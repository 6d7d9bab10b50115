"""Rule files: what a good one gives, and the one line that each mistake gets."""

from pathlib import Path

import pytest

from alerting.rules import (
    DEFAULT_RULES,
    BrokerDownRule,
    LagRule,
    LostRule,
    NobodyOnlineRule,
    RuleError,
    load_rules,
)
from spark.alerts import BROKER_KINDS, GROUP_KINDS

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


def test_the_ready_made_rules_are_good_and_of_every_kind() -> None:
    rules = load_rules(DEFAULT_RULES)
    assert {rule.kind for rule in rules} == {*GROUP_KINDS, *BROKER_KINDS}
    assert all(rule.description for rule in rules)


def test_what_is_not_said_has_a_default(tmp_path: Path) -> None:
    text = """\
rules:
  - {name: a, kind: lag, threshold: 100}
  - {name: b, kind: nobody_online, severity: critical, match: {topic: "orders-*"}}
  - {name: c, kind: lost, match: {consumer_group: [g-a, g-b], cluster: prod}}
  - {name: d, kind: broker_down, runbook: "https://wiki/broker", match: {broker: "broker-?"}}
"""
    lag, nobody, lost, down = load_rules(write(tmp_path, text))
    assert lag == LagRule(name="a", kind="lag", threshold=100, severity="warning", for_snapshots=3)
    assert lag.globs() == {"cluster": ("*",), "consumer_group": ("*",), "topic": ("*",)}
    assert isinstance(nobody, NobodyOnlineRule)
    assert (nobody.threshold, nobody.for_snapshots, nobody.severity) == (0, 3, "critical")
    assert nobody.globs()["topic"] == ("orders-*",)
    assert isinstance(lost, LostRule)
    assert lost.for_snapshots == 1
    assert lost.globs() == {
        "cluster": ("prod",),
        "consumer_group": ("g-a", "g-b"),
        "topic": ("*",),
    }
    assert isinstance(down, BrokerDownRule)
    assert (down.threshold, down.runbook) == (0, "https://wiki/broker")
    assert down.globs() == {"cluster": ("*",), "broker": ("broker-?",)}


def test_a_folder_gives_the_rules_of_its_files_by_name(tmp_path: Path) -> None:
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
    "nested too deeply": ("[" * 5000, ["team.yaml:1: nested too deeply"]),
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
        ["team.yaml:1: version: unknown field, only `rules` is known here"],
    ),
    "a rule that is no mapping": (
        GOOD + "  - lag\n",
        ["team.yaml:5: rules[1]: a rule is a mapping, not text"],
    ),
    "unknown kind": (
        GOOD.replace("lag\n    t", "lagg\n    t"),
        [
            "team.yaml:3: rules[0].kind: unknown kind 'lagg', known are "
            "'lag', 'nobody_online', 'lost', 'broker_down'"
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
    "for no snapshot": (
        GOOD + "    for_snapshots: 0\n",
        ["team.yaml:5: rules[0].for_snapshots: should be greater than or equal to 1, not 0"],
    ),
    "for more snapshots than are looked at": (
        GOOD + "    for_snapshots: 61\n",
        ["team.yaml:5: rules[0].for_snapshots: should be less than or equal to 60, not 61"],
    ),
    "half a snapshot": (
        GOOD + "    for_snapshots: 1.5\n",
        ["team.yaml:5: rules[0].for_snapshots: should be a valid integer, not 1.5"],
    ),
    "unknown severity": (
        GOOD + "    severity: fatal\n",
        ["team.yaml:5: rules[0].severity: should be 'critical', 'warning' or 'info', not 'fatal'"],
    ),
    "unknown field": (
        GOOD + "    treshold: 5\n",
        ["team.yaml:5: rules[0].treshold: unknown field"],
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
            "team.yaml:5: rules[0].runbook: String should match pattern '^https?://\\S+$', "
            "not 'ask Bob'"
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
            "team.yaml:6: rules[1].kind: unknown kind 'lots', known are "
            "'lag', 'nobody_online', 'lost', 'broker_down'",
        ],
    ),
}


@pytest.mark.parametrize(("text", "expected"), WRONG.values(), ids=WRONG.keys())
def test_each_mistake_has_one_line_with_file_line_and_field(
    tmp_path: Path, text: str | bytes, expected: list[str]
) -> None:
    assert mistakes(write(tmp_path, text), tmp_path) == expected


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    expected = ["absent.yaml: cannot be read: No such file or directory"]
    assert mistakes(tmp_path / "absent.yaml", tmp_path) == expected


def test_a_folder_without_rules_is_named(tmp_path: Path) -> None:
    (tmp_path / "rules").mkdir()
    expected = ["rules: no rule file (*.yaml) in this folder"]
    assert mistakes(tmp_path / "rules", tmp_path) == expected


def test_mistakes_of_all_files_are_told_at_once(tmp_path: Path) -> None:
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
