"""Routes choose receivers, group messages, and time repeats and escalations."""

import hashlib
import hmac
import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from msgspec.structs import replace

from tests.support.notification_servers import Webhook, serve
from tests.support.notified_incidents import clock, incident, minute
from tidemark.alerting.delivery.outbox import Delivery, deliver
from tidemark.alerting.delivery.receivers import open_channels
from tidemark.alerting.incidents.incident import Incident
from tidemark.alerting.incidents.life_cycle import acknowledged
from tidemark.alerting.incidents.repository import find, save
from tidemark.alerting.rules.files import read_rule_set
from tidemark.lake.tables.alerting import NOTIFICATIONS
from tidemark.settings.owners import OwnedGroups, Owner, Owners
from tidemark.settings.sections import NotificationSettings

OWNERS = Owners(
    [
        OwnedGroups(
            match={"consumer_group": ("owned-*",)},
            owner=Owner(team="orders", contact="#orders", links={"wiki": "https://wiki.example"}),
        )
    ]
)


@pytest.fixture
def servers() -> Iterator[dict[str, Webhook]]:
    with ExitStack() as stack:
        yield {name: stack.enter_context(serve()) for name in ("default", "team", "lead")}


Deliver = Callable[[float], Delivery]


@pytest.fixture
def delivering(lake, tmp_path: Path, servers) -> Callable[[str], Deliver]:
    """Return a delivery by these routes at a minute, to receivers `team` and `lead`."""

    def by(routes: str, receivers: str = "") -> Deliver:
        file = tmp_path / "rules.yaml"
        named = receivers or "".join(
            f"- {{name: {name}, urls: '{servers[name].url}'}}\n" for name in ("team", "lead")
        )
        file.write_text(f"receivers:\n{named}{routes}")
        rule_set = read_rule_set(file)
        assert rule_set.mistakes == ()
        settings = NotificationSettings(urls=servers["default"].url)
        channels, mistakes = open_channels(
            settings, rule_set.routing.used_receivers, {"KEY": "s3cret-key"}
        )
        assert mistakes == []
        return lambda at: deliver(
            lake, channels[1:], clock=clock(at), routing=rule_set.routing, owners=OWNERS
        )

    return by


def titles(server: Webhook) -> list[str]:
    return [row["title"] for row in server.received]


def firing(group: str, at: float = 0, severity: str = "critical", **other) -> Incident:
    return incident(("FIRING", at), group=group, severity=severity, **other)


def over(one: Incident, at: float) -> Incident:
    first = (one.transitions[0].at - minute(0)).total_seconds() / 60
    made = incident(
        ("FIRING", first),
        ("RESOLVED", at),
        group=one.subject.split("/")[1],
        severity=one.severity,
    )
    assert made.incident_id == one.incident_id
    return made


AT_ONCE = "  group_wait: 0s\n  group_interval: 1s\n"


def test_each_incident_reaches_the_receivers_of_its_routes(lake, servers, delivering):
    by = delivering(
        "routes:\n  receiver: default\n" + AT_ONCE + "  routes:\n"
        "  - {match: {severity: critical}, receiver: team, continue: true}\n"
        "  - {match: {consumer_group: pay}, receiver: lead}\n"
    )
    save(lake, [], [firing("pay"), firing("other"), firing("mild", severity="warning")])
    assert by(1).notifications == 3
    assert by(2).notifications == 0
    assert titles(servers["team"]) == ["Tidemark: 2 critical"]
    assert titles(servers["lead"]) == ["[critical] FIRING lag: lab/pay/orders"]
    assert titles(servers["default"]) == ["[warning] FIRING lag: lab/mild/orders"]


def test_without_routes_receivers_get_nothing(lake, servers, delivering):
    save(lake, [], [firing("pay")])
    delivering("")(1)
    assert [len(server.received) for server in servers.values()] == [1, 0, 0]


GROUPED = (
    "routes:\n  receiver: team\n  group_by: [severity]\n  group_wait: 2m\n"
    "  group_interval: 10m\n  repeat_interval: 4h\n"
)


def test_groups_wait_and_later_messages_keep_their_interval(lake, servers, delivering):
    by, team = delivering(GROUPED), servers["team"]
    save(lake, [], [firing("a"), firing("b", 1), firing("mild", 1.5, "warning")])
    assert by(1.9).notifications == 0
    waiting = lake.read(NOTIFICATIONS).to_pylist()
    assert {row["status"] for row in waiting} == {"PENDING"}
    assert {row["next_attempt_at"] for row in waiting} == {minute(2), minute(3.5)}
    assert by(2).notifications == 2
    assert titles(team) == ["Tidemark: 2 critical"]
    save(lake, [], [firing("c", 2.1)])
    assert by(3.5).notifications == 1, "the other severity is another group"
    assert by(11.9).notifications == 0
    assert by(12).notifications == 1
    assert titles(team)[2:] == ["[critical] FIRING lag: lab/c/orders"]
    save(lake, [a := firing("a")], [over(a, 13)])
    assert [by(at).notifications for at in (13, 21.9, 22)] == [0, 0, 1]
    assert titles(team)[3:] == ["[critical] RESOLVED lag: lab/a/orders"]


def test_an_incident_resolved_during_group_wait_is_notified(lake, servers, delivering):
    by = delivering(GROUPED)
    save(lake, [], [a := firing("a")])
    by(0.5)
    save(lake, [a], [over(a, 1)])
    assert [by(at).notifications for at in (1, 1.9, 2)] == [0, 0, 2]
    assert titles(servers["team"]) == ["[critical] RESOLVED lag: lab/a/orders"] or titles(
        servers["team"]
    ) == ["Tidemark: 1 critical, 1 resolved"]


def test_a_message_repeats_until_somebody_acknowledges(lake, servers, delivering):
    by, team = delivering(GROUPED), servers["team"]
    save(lake, [], [a := firing("a")])
    by(2)
    assert [by(at).notifications for at in (100, 241.9, 242, 243)] == [0, 0, 1, 0]
    save(lake, [a], [acknowledged(a, "eve", minute(300))])
    assert [by(at).notifications for at in (482, 900)] == [0, 0]
    assert len(team.received) == 2


ESCALATES = (
    "routes:\n  receiver: team\n" + AT_ONCE + "  routes:\n"
    "  - match: {severity: critical}\n    escalate_after: 15m\n    escalate_to: lead\n"
)


def test_what_nobody_acknowledges_escalates_and_its_end_follows(lake, servers, delivering):
    by, lead = delivering(ESCALATES), servers["lead"]
    save(lake, [], [a := firing("a"), taken := firing("taken"), firing("mild", severity="info")])
    by(1)
    save(lake, [taken], [acknowledged(taken, "eve", minute(10))])
    by(15.9)
    assert lead.received == [], "the team has known for 14.9 minutes"
    by(16)
    assert titles(lead) == ["[critical] FIRING lag: lab/a/orders"]
    save(lake, [a], [over(a, 30)])
    by(31)
    assert titles(lead)[1:] == ["[critical] RESOLVED lag: lab/a/orders"]
    assert titles(servers["team"])[-1] == "[critical] RESOLVED lag: lab/a/orders"


@pytest.mark.parametrize("taken_at", [20, 79])
def test_an_acknowledged_escalation_is_not_repeated(lake, servers, delivering, taken_at):
    """The receiver of the escalation no longer has a route to the incident."""
    by, lead = delivering(f"{ESCALATES}    repeat_interval: 1h\n"), servers["lead"]
    save(lake, [], [a := firing("a")])
    assert [by(at).notifications for at in (1, 16)] == [1, 1]
    save(lake, [a], [taken := acknowledged(a, "eve", minute(taken_at))])
    assert [by(at).notifications for at in (80, 140)] == [0, 0]
    assert titles(lead) == ["[critical] FIRING lag: lab/a/orders"]
    save(lake, [taken], [over(a, 150)])
    by(151)
    assert titles(lead)[1:] == ["[critical] RESOLVED lag: lab/a/orders"]


def test_an_escalation_repeats_until_somebody_acknowledges(lake, servers, delivering):
    by, lead = delivering(f"{ESCALATES}    repeat_interval: 1h\n"), servers["lead"]
    save(lake, [], [firing("a")])
    for at in (1, 16, 75, 80, 100):
        by(at)
    line = "[critical] FIRING lag: lab/a/orders"
    assert titles(lead) == [line, f"{line} (repeat 1)"]


def test_an_escalation_counts_from_the_first_notification(lake, servers, delivering):
    """Nobody can acknowledge before; repeats in between begin nothing again."""
    team, lead = servers["team"], servers["lead"]
    by = delivering(f"{ESCALATES}    repeat_interval: 4m\n")
    save(lake, [], [firing("a")])
    for at in (40, 44, 48, 52, 54.9):
        by(at)
    assert (len(team.received), lead.received) == (4, [])
    by(55)
    assert titles(lead) == ["[critical] FIRING lag: lab/a/orders"]


def test_a_receiver_that_cannot_be_reached_escalates(lake, servers, delivering):
    """It counts from the firing: the lead must not wait until the team can be reached."""
    by, lead = delivering(ESCALATES), servers["lead"]
    servers["team"].status = 503
    save(lake, [], [firing("a")])
    by(1)
    by(15)
    assert titles(lead) == ["[critical] FIRING lag: lab/a/orders"]


def test_a_receiver_that_takes_no_info_escalates(lake, servers, delivering):
    """A pager opens no page for info, so the team would never be notified of it."""
    lead = f"- {{name: lead, urls: '{servers['lead'].url}'}}\n"
    receivers = "- {name: pager, urls: 'pagerduty://A1BB@ey'}\n" + lead
    by = delivering(ESCALATES.replace("critical", "info").replace("team", "pager"), receivers)
    save(lake, [], [firing("mild", severity="info")])
    by(1)
    assert servers["lead"].received == []
    by(15)
    assert titles(servers["lead"]) == ["[info] FIRING lag: lab/mild/orders"]


def test_a_repeat_is_no_duplicate_of_the_first_notification(lake, servers, delivering):
    """A receiver drops messages with the key of an earlier one, however often they are sent."""
    team = servers["team"]
    by = delivering(
        "routes: {receiver: hook, group_wait: 0s, group_interval: 1s, repeat_interval: 1h}\n",
        f"- {{name: hook, webhook: {{url: '{team.http}'}}}}\n",
    )
    save(lake, [], [a := firing("a")])
    by(1)
    team.status = 503
    by(61)
    team.status = 200
    for at in (62, 122):
        by(at)
    keys = [header["Idempotency-Key"].removeprefix(a.incident_id) for header in team.headers]
    assert keys == ["/FIRING", "/FIRING/1", "/FIRING/2"], "a refused attempt keeps its number"
    assert [item["transition"]["repeat_number"] for item in team.received] == [0, 1, 2]


def test_a_removed_route_repeats_nothing(lake, servers, delivering):
    save(lake, [], [firing("a")])
    delivering(GROUPED)(2)
    by = delivering("routes: {receiver: lead, group_wait: 0s}\n")
    by(250)
    assert titles(servers["team"]) == ["[critical] FIRING lag: lab/a/orders"]
    assert titles(servers["lead"]) == ["[critical] FIRING lag: lab/a/orders"]


def test_what_resolves_before_it_escalates_reaches_nobody_else(lake, servers, delivering):
    by = delivering(ESCALATES)
    save(lake, [], [a := firing("a")])
    by(1)
    save(lake, [a], [over(a, 5)])
    assert [by(at).notifications for at in (6, 20, 90)] == [1, 0, 0]
    assert servers["lead"].received == []


def test_a_muted_route_notifies_after_its_interval(lake, servers, delivering):
    by = delivering(
        "time_intervals:\n- name: noon\n  time_intervals:\n"
        '  - {times: {start_time: "12:00", end_time: "13:00"}, weekdays: thursday}\n'
        "routes:\n  receiver: team\n" + AT_ONCE + "  routes:\n"
        "  - {match: {consumer_group: a}, mute_time_intervals: noon}\n"
        "  - {match: {consumer_group: b}, active_time_intervals: [noon]}\n"
    )
    save(lake, [], [firing("a"), firing("b")])
    by(1)
    assert titles(servers["team"]) == ["[critical] FIRING lag: lab/b/orders"]
    (waiting,) = [row for row in lake.read(NOTIFICATIONS).to_pylist() if row["last_error"]]
    assert waiting["last_error"] == "in the mute time noon"
    by(60)
    assert titles(servers["team"])[1:] == ["[critical] FIRING lag: lab/a/orders"]


def test_a_mistake_in_the_routes_notifies_every_receiver(lake, tmp_path, servers):
    file = tmp_path / "rules.yaml"
    file.write_text(
        f"receivers: [{{name: team, urls: '{servers['team'].url}'}}]\n"
        "routes: {receiver: nobody}\n"
    )
    rule_set = read_rule_set(file)
    channels, _ = open_channels(
        NotificationSettings(urls=servers["default"].url), rule_set.routing.used_receivers
    )
    save(lake, [], [firing("a")])
    deliver(lake, channels[1:], clock=clock(1), routing=rule_set.routing)
    assert [len(servers[name].received) for name in ("default", "team")] == [1, 1]


def test_a_rerouted_incident_resolves_on_its_first_receiver(lake, servers, delivering):
    save(lake, [], [a := firing("a")])
    delivering("routes: {receiver: team, group_wait: 0s}\n")(1)
    by = delivering("routes: {receiver: lead, group_wait: 0s}\n")
    by(2)
    save(lake, [a], [over(a, 9)])
    by(30)
    for name in ("team", "lead"):
        assert titles(servers[name])[-1] == "[critical] RESOLVED lag: lab/a/orders"


# Webhooks


def test_a_webhook_gets_one_signed_incident_per_key(lake, servers, delivering):
    team = servers["team"]
    by = delivering(
        "routes: {receiver: hook, group_wait: 0s, group_interval: 1s}\n",
        f"- {{name: hook, webhook: {{url: '{team.http}', secret: '${{KEY}}'}}}}\n",
    )
    save(lake, [], [a := firing("a")])
    team.status = 503
    assert list(by(1).failed.values()) == ["refused: HTTP 503"]
    team.status = 200
    assert by(1.1).notifications == 0, "it is tried again after a pause"
    assert by(2).notifications == 1
    save(lake, [a], [taken := acknowledged(a, "eve", minute(3), "mine")])
    assert by(4).notifications == 1
    save(lake, find(lake, [a.incident_id]), [over(taken, 9)])
    assert by(10).notifications == 1
    keys = [header["Idempotency-Key"] for header in team.headers]
    assert keys == [f"{a.incident_id}/{name}" for name in ("FIRING", "ACKNOWLEDGED", "RESOLVED")]
    for headers, body in zip(team.headers, team.bodies, strict=True):
        signature = hmac.new(b"s3cret-key", body, hashlib.sha256).hexdigest()
        assert headers["X-Tidemark-Signature"] == f"sha256={signature}"
    first, second, _ = team.received
    assert (first["incident_id"], first["evidence"]["row"]["topic"]) == (a.incident_id, "orders")
    assert first["transition"] == {
        "transition": "FIRING",
        "state": "FIRING",
        "at": "2026-11-19T12:00:00Z",
        "repeat": False,
        "repeat_number": 0,
        "late": False,
    }
    assert (second["acknowledged_by"], second["acknowledge_reason"]) == ("eve", "mine")
    assert "s3cret" not in json.dumps(lake.read(NOTIFICATIONS).to_pylist(), default=str)


def test_a_missing_secret_is_named_and_stops_no_other(tmp_path: Path):
    file = tmp_path / "rules.yaml"
    file.write_text(
        "receivers:\n- name: a\n  urls: ['json://${NO_SUCH}@127.0.0.1', 'nosuch://s3cret']\n"
        "  webhook: 'ftp://s3cret'\n- {name: b, urls: 'json://127.0.0.1'}\n"
        "routes: {receiver: a}\n"
    )
    receivers = read_rule_set(file).routing.used_receivers
    channels, mistakes = open_channels(NotificationSettings(), receivers, {})
    assert mistakes == [
        "receiver a, urls[0]: the variable NO_SUCH is not set",
        "receiver a, urls[1]: apprise cannot use this nosuch:// address",
        "receiver a, webhook[0]: a webhook's address starts with http:// or https://",
    ]
    assert [channel.name.split("-")[0] for channel in channels] == ["log", "b.json"]


# Pagers


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("pagerduty://routing-key@api-key", ("enqueue", "acknowledge")),
        ("opsgenie://api-key/@eve", ("/acknowledge", None)),
    ],
)
def test_an_acknowledgement_reaches_the_pager_once(lake, web, url, expected):
    """Caught on its way out: their addresses are fixed, and nobody has an account for a test."""
    (channel,) = open_channels(NotificationSettings(urls=url))[0][1:]
    save(lake, [], [a := firing("a")])
    deliver(lake, [channel], clock=clock(1))
    save(lake, [a], [taken := acknowledged(a, "eve", minute(2), "mine")])
    assert deliver(lake, [channel], clock=clock(3)).notifications == 1
    assert deliver(lake, [channel], clock=clock(4)).notifications == 0
    address, what, _ = web.posted[-1]
    assert address.endswith(expected[0])
    assert what.get("event_action") == expected[1]
    assert what.get("dedup_key", a.incident_id) == a.incident_id
    save(lake, [taken], [replace(over(a, 5), acknowledged_by="eve")])
    assert deliver(lake, [channel], clock=clock(6)).notifications == 1
    assert len(web.posted) == 3


def test_no_acknowledgement_is_sent_after_a_resolution(lake, web):
    (channel,) = open_channels(NotificationSettings(urls="pagerduty://routing-key@api-key"))[0][1:]
    save(lake, [], [a := firing("a")])
    deliver(lake, [channel], clock=clock(1))
    web.refuses_from = 1
    save(lake, [a], [taken := acknowledged(a, "eve", minute(2))])
    assert deliver(lake, [channel], clock=clock(3)).failed
    web.refuses_from = 9
    save(lake, [taken], [over(a, 5)])
    deliver(lake, [channel], clock=clock(6))
    statuses = {row["transition"]: row["status"] for row in lake.read(NOTIFICATIONS).to_pylist()}
    assert statuses == {"FIRING": "DELIVERED", "ACKNOWLEDGED": "WITHHELD", "RESOLVED": "DELIVERED"}


def test_a_route_matches_the_team_of_a_group_and_the_message_names_its_owner(
    lake, delivering, servers
) -> None:
    by = delivering(
        f"routes:\n  receiver: default\n{AT_ONCE}  routes:\n"
        "  - {match: {labels: {team: orders}}, receiver: team}\n"
    )
    # A rule without a label of its own; one that names a team keeps it.
    save(lake, [], [replace(firing(name), labels={}) for name in ("owned-1", "other-1")])
    by(1)
    assert titles(servers["default"]) == ["[critical] FIRING lag: lab/other-1/orders"]
    (message,) = servers["team"].received
    assert "owned-1" in message["title"] and "other-1" not in message["title"]
    for words in ("team=orders", "contact=#orders", "link_wiki=https://wiki.example"):
        assert words in message["message"]


def test_dead_letters_are_those_of_the_team_of_their_group(lake, delivering, servers) -> None:
    by = delivering(
        f"routes:\n  receiver: default\n{AT_ONCE}  routes:\n"
        "  - {match: {labels: {team: orders}}, receiver: team}\n"
    )
    row = {"cluster": "lab", "topic": "%DLQ%owned-1", "consumer_group": "owned-1"}
    dead = replace(
        firing("owned-1"),
        labels={},
        kind="dead_letter_age",
        subject="lab/%DLQ%owned-1",
        evidence=json.dumps({"row": row}),
    )
    save(lake, [], [dead])
    by(1)
    assert len(servers["team"].received) == 1 and servers["default"].received == []
