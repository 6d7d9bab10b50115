"""Routes decide as a real Alertmanager does: the same receivers for random trees and labels."""

import random
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from tidemark.alerting.rules.files import DEFAULT_RULES, read_rule_set

AMTOOL = shutil.which("amtool")

needs_amtool = pytest.mark.skipif(
    AMTOOL is None, reason="amtool is not installed: apt-get install prometheus-alertmanager"
)

LABELS = {
    "severity": ["critical", "warning", "info"],
    "rule": ["lag-high", "lag-very-high", "broker-down"],
    "cluster": ["lab", "prod-eu", "prod-us"],
    "topic": ["orders", "orders-eu", "a.b", "%RETRY%g", "x[1]"],
    "team": ["pay", "search", "p.y"],
}
GLOBS = {
    "severity": ["critical", "warning", "*", "???fo"],
    "rule": ["lag-*", "broker-down", "*-high"],
    "cluster": ["prod-*", "lab", "prod-e?"],
    "topic": ["orders*", "a.b", "*RETRY*", "x[1]", "a?b"],
    "team": ["pay", "p?y", "p.y", "*"],
}
RECEIVERS = ["one", "two", "three", "four"]
TREES, CASES = 25, 20


def random_route(chance: random.Random, depth: int) -> dict[str, Any]:
    names = chance.sample(sorted(GLOBS), chance.randint(0, 2))
    globs = {name: chance.sample(GLOBS[name], chance.randint(1, 2)) for name in names}
    route: dict[str, Any] = {"match": {name: globs[name] for name in names if name != "team"}}
    if "team" in globs:
        route["match"]["labels"] = {"team": globs["team"]}
    if chance.random() < 0.8:
        route["receiver"] = chance.choice(RECEIVERS)
    if chance.random() < 0.4:
        route["continue"] = True
    if depth and chance.random() < 0.7:
        route["routes"] = [random_route(chance, depth - 1) for _ in range(chance.randint(1, 3))]
    return route


def as_alertmanager(route: dict[str, Any]) -> dict[str, Any]:
    """The same route as Alertmanager's configuration has it."""
    match = dict(route.get("match", {}))
    globs = {**match, **match.pop("labels", {})}
    globs.pop("labels", None)
    matchers = []
    for name, patterns in globs.items():
        regex = "|".join(
            re.escape(pattern).replace(r"\*", ".*").replace(r"\?", ".") for pattern in patterns
        )
        escaped = regex.replace("\\", "\\\\")
        matchers.append(f'{name}=~"{escaped}"')
    made = {name: route[name] for name in ("receiver", "continue") if name in route}
    if matchers:
        made["matchers"] = matchers
    return made | {"routes": [as_alertmanager(item) for item in route.get("routes", ())]}


def routes_of_alertmanager(file: Path, labels: dict[str, str]) -> list[str]:
    pairs = [f"{name}={value}" for name, value in labels.items()]
    done = subprocess.run(
        [str(AMTOOL), "config", "routes", "test", f"--config.file={file}", *pairs],
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.strip().split(",")


@needs_amtool
@pytest.mark.slow
def test_random_labels_reach_the_receivers_that_alertmanager_names(tmp_path: Path):
    chance = random.Random(20261124)
    several = 0
    for number in range(TREES):
        root = {"receiver": "one", "routes": [random_route(chance, 2) for _ in range(4)]}
        mine, theirs = tmp_path / f"rules-{number}.yaml", tmp_path / f"alertmanager-{number}.yaml"
        receivers = [{"name": name} for name in RECEIVERS]
        mine.write_text(yaml.safe_dump({"rules": [], "receivers": receivers, "routes": root}))
        theirs.write_text(yaml.safe_dump({"route": as_alertmanager(root), "receivers": receivers}))
        declared = read_rule_set(mine)
        assert declared.mistakes == ()
        for _ in range(CASES):
            names = chance.sample(sorted(LABELS), chance.randint(1, len(LABELS)))
            labels = {name: chance.choice(LABELS[name]) for name in names}
            expected = routes_of_alertmanager(theirs, labels)
            assert [node.receiver for node in declared.routing.routes(labels)] == expected, labels
            several += len(expected) > 1
    assert several > TREES, "routes that go on are among the cases"


def test_a_route_inherits_what_it_leaves_out(tmp_path: Path):
    file = tmp_path / "rules.yaml"
    file.write_text("""\
rules: []
receivers: [{name: mail}, {name: lead}]
routes:
  receiver: mail
  group_by: [cluster]
  group_wait: 10s
  routes:
  - match: {severity: critical}
    group_interval: 2m
    escalate_after: 15m
    escalate_to: lead
    routes:
    - match: {labels: {team: pay}}
      receiver: lead
      repeat_interval: 1h
""")
    routing = read_rule_set(file).routing
    (pay,) = routing.routes({"severity": "critical", "team": "pay", "cluster": "lab"})
    assert (pay.place, pay.receiver) == ("routes.routes[0].routes[0]", "lead")
    waits = (pay.group_wait, pay.group_interval, pay.repeat_interval, pay.escalate_after)
    assert waits == (10, 120, 3600, 900)
    assert pay.group_key({"cluster": "lab"}) == (pay.place, "cluster=lab")
    (other,) = routing.routes({"severity": "info"})
    assert (other.receiver, other.repeat_interval, other.escalate_to) == ("mail", 14_400, None)


def test_a_list_of_routes_ends_at_the_environments_addresses(tmp_path: Path):
    file = tmp_path / "rules.yaml"
    file.write_text("""\
receivers: [{name: pager}]
routes:
- {match: {severity: critical}, receiver: pager, continue: true}
- {match: {rule: "lag-*"}, receiver: default}
""")
    routing = read_rule_set(file).routing
    routes = routing.routes({"severity": "critical", "rule": "lag-high"})
    assert [(node.place, node.receiver) for node in routes] == [
        ("routes[0]", "pager"),
        ("routes[1]", "default"),
    ]
    assert [node.receiver for node in routing.routes({"rule": "disk"})] == ["default"]


WRONG = {
    "no such receiver": (
        "routes:\n  receiver: default\n  routes:\n  - receiver: nobody\n",
        "rules.yaml:4: routes.routes[0].receiver: 'nobody' is no receiver, known are default",
    ),
    "in a list": (
        "routes:\n- match: {severity: info}\n  escalate_after: 5m\n  escalate_to: lead\n",
        "rules.yaml:4: routes[0].escalate_to: 'lead' is no receiver, known are default",
    ),
    "no such time": (
        "routes:\n- mute_time_intervals: [nights]\n",
        "rules.yaml:2: routes[0].mute_time_intervals: 'nights' is no time interval",
    ),
    "nobody to escalate to": (
        "routes:\n- escalate_after: 5m\n",
        "rules.yaml:2: routes[0]: escalate_after needs escalate_to, the receiver that is notified",
    ),
    "no time to escalate": (
        "receivers: [{name: a}]\nroutes:\n- {routes: [{escalate_to: a}]}\n",
        "rules.yaml:3: routes[0].routes[0]: escalate_to needs escalate_after",
    ),
    "unknown field": (
        "routes:\n  receivr: default\n",
        "rules.yaml:2: routes.receivr: unknown field",
    ),
    "no duration": (
        "routes:\n- group_wait: soon\n",
        "rules.yaml:2: routes[0].group_wait: a duration is wanted",
    ),
    "root with a match": (
        "routes:\n  receiver: default\n  match: {severity: info}\n",
        "rules.yaml:1: routes: the root takes everything",
    ),
    "text": ("routes: mail\n", "rules.yaml:1: routes: a mapping or a list of routes is wanted"),
    "two of a name": (
        "receivers:\n- name: a\n- name: a\n",
        "rules.yaml:3: receivers[1].name: 'a' is another one's name",
    ),
    "the name of the environment's": (
        "receivers:\n- name: default\n",
        "rules.yaml:2: receivers[0].name: 'default' is the receiver of TIDEMARK_NOTIFY_URLS",
    ),
    "a time without quotes": (
        "time_intervals:\n- name: n\n  time_intervals:\n"
        "  - times: {start_time: 9, end_time: 17:00}\n",
        "rules.yaml:4: time_intervals[0].time_intervals[0].times[0].start_time: a time in quotes",
    ),
    "a time that ends early": (
        "time_intervals:\n- name: n\n  time_intervals:\n"
        "  - times: {start_time: 22:00, end_time: 07:00}\n",
        "rules.yaml:4: time_intervals[0].time_intervals[0].times[0].end_time: it has to be after",
    ),
    "no such day": (
        "time_intervals:\n- name: n\n  time_intervals: [{weekdays: someday}]\n",
        "rules.yaml:3: time_intervals[0].time_intervals[0].weekdays: 'someday' is unknown",
    ),
    "an inhibition without a target": (
        "inhibit:\n- source: {rule: a}\n",
        "rules.yaml:2: inhibit[0].target: missing",
    ),
    "a label that is a field": (
        "inhibit:\n- source: {labels: {rule: a}}\n  target: {}\n",
        "rules.yaml:2: inhibit[0].source.labels: rule is a field of the match",
    ),
}


@pytest.mark.parametrize(("text", "line"), WRONG.values(), ids=WRONG)
def test_a_mistake_is_one_line_with_its_place(tmp_path: Path, text: str, line: str):
    file = tmp_path / "rules.yaml"
    file.write_text(text)
    declared = read_rule_set(file)
    (mistake,) = (mistake.replace(f"{tmp_path}/", "") for mistake in declared.mistakes)
    assert mistake.startswith(line)
    assert declared.rule_mistakes == ()
    assert declared.routing.broadcasts == ("routes" in text)


@pytest.mark.parametrize(
    "text", ["routes: {receiver: team\n", "route: {}\n", "rules: []\nroute: {}\n"]
)
def test_routes_that_cannot_be_read_notify_every_receiver(tmp_path: Path, text: str):
    (tmp_path / "receivers.yaml").write_text("receivers: [{name: team}]\n")
    (tmp_path / "routes.yaml").write_text(text)
    declared = read_rule_set(tmp_path)
    assert declared.mistakes
    assert declared.routing.broadcasts
    assert [receiver.name for receiver in declared.routing.used_receivers] == ["team"]


def test_a_wrong_rule_leaves_routes_as_they_are(tmp_path: Path):
    (tmp_path / "routes.yaml").write_text("routes: {receiver: default}\n")
    (tmp_path / "rules.yaml").write_text("rules: [\n")
    declared = read_rule_set(tmp_path)
    assert declared.mistakes
    assert declared.routing.root


def test_each_part_of_an_escalation_is_inherited(tmp_path: Path):
    file = tmp_path / "rules.yaml"
    file.write_text("""\
receivers: [{name: lead}, {name: boss}]
routes:
  receiver: default
  escalate_after: 15m
  escalate_to: lead
  routes:
  - {match: {severity: critical}, escalate_to: boss}
  - {match: {severity: warning}, escalate_after: 1h}
""")
    declared = read_rule_set(file)
    assert declared.mistakes == ()
    names = [
        (node.escalate_after, node.escalate_to)
        for severity in ("critical", "warning", "info")
        for node in declared.routing.routes({"severity": severity})
    ]
    assert names == [(900, "boss"), (3600, "lead"), (900, "lead")]


def test_no_mistake_shows_an_address(tmp_path: Path):
    file = tmp_path / "rules.yaml"
    file.write_text("receivers:\n- {name: a, urls: [[s3cret]], webhook: {url: [s3cret]}}\n")
    assert len(read_rule_set(file).mistakes) == 2
    assert "s3cret" not in str(read_rule_set(file).mistakes)


def test_a_file_of_routes_switches_no_rule_off(tmp_path: Path):
    file = tmp_path / "routes.yaml"
    file.write_text("routes: {receiver: default}\n")
    declared = read_rule_set(file)
    assert declared.mistakes == ()
    assert declared.rules == read_rule_set(DEFAULT_RULES).rules
    file.write_text("routes: {receiver: default}\nrules: []\n")
    assert read_rule_set(file).rules == []
    file.write_text("routes: {receiver: default}\nrule: []\n")
    assert read_rule_set(file).rules == [], "the mistake keeps incidents as they are"
