"""kill -9 of the notifier at random moments, with routes, groups and escalation.

Each round raises incidents of two groups, acknowledges one, and ends those of some rounds before.
A process that delivers by a tree of routes is killed at a random moment of that. In the end one
that nobody kills delivers the rest. ``python -m bench.routed_notifier [--kills 50]``
"""

import argparse
import random
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.notifier import LINE, counted, deliver_for_ever, deliverer, new_incident, present
from bench.soak import print_line
from tests.support.notification_servers import Webhook, serve
from tidemark.alerting.delivery.channels import Channel
from tidemark.alerting.delivery.outbox import deliver
from tidemark.alerting.delivery.receivers import open_channels
from tidemark.alerting.incidents.incident import Incident
from tidemark.alerting.incidents.life_cycle import acknowledged, resolved
from tidemark.alerting.incidents.repository import find, save
from tidemark.alerting.rules.files import read_rule_set
from tidemark.alerting.rules.routing import Routing
from tidemark.lake.catalog import Lake
from tidemark.settings.home import Home
from tidemark.settings.sections import NotificationSettings

ROUTES = """\
receivers:
- {{name: team, urls: '{team}'}}
- {{name: lead, urls: '{lead}'}}
- {{name: hook, webhook: {{url: '{hook}', secret: key}}}}
routes:
  receiver: team
  group_by: [consumer_group]
  group_wait: 0s
  group_interval: 1s
  repeat_interval: 1h
  routes:
  - {{match: {{severity: critical}}, receiver: hook, continue: true}}
  - {{match: {{severity: critical}}, escalate_after: 4s, escalate_to: lead}}
"""
"""Two groups of two incidents a round; what stays open for 4 s and unacknowledged escalates."""

STANDING = 8
"""Rounds that an incident stays open: longer than it takes to escalate."""


@dataclass(frozen=True, kw_only=True)
class Result:
    """The result of a bench.

    Attributes:
        expected: transitions there were.
        missing: by receiver, transitions that it was never notified of.
        repeated: by receiver, messages that repeated something.
        wrongly_escalated: acknowledged incidents that escalated.
    """

    expected: int
    missing: dict[str, int]
    repeated: dict[str, int]
    wrongly_escalated: int


def routed_notifier(folder: Path, kills: int, seed: int, report: Callable[[str], None]) -> Result:
    """Kill that many notifiers.

    Args:
        folder: an empty folder for the home.
        kills: how many.
        seed: of the moments.
        report: called with what happens, one line each.
    """
    lake, chance = Lake(Home.of(folder / "home")), random.Random(seed)
    rounds: list[list[Incident]] = []
    fired, over, taken = set[str](), set[str](), set[str]()
    with ExitStack() as stack:
        servers = {name: stack.enter_context(serve()) for name in ("team", "lead", "hook")}
        file = folder / "rules.yaml"
        addresses = {name: webhook.url for name, webhook in servers.items()}
        file.write_text(ROUTES.format(**addresses | {"hook": servers["hook"].http}))
        for number in range(kills):
            process = deliverer("bench.routed_notifier", lake.home, str(file))
            raised = [
                new_incident(f"lab/g-{number}-{group}/t-{topic}")
                for group in range(2)
                for topic in range(2)
            ]
            mine = acknowledged(raised[0], "eve", present())
            ended = _ended(lake, rounds.pop(0)) if len(rounds) == STANDING else []
            save(lake, [], [mine, *raised[1:]])
            save(lake, [], ended)
            fired |= {incident.subject for incident in raised}
            taken.add(mine.subject)
            over |= {incident.subject for incident in ended}
            rounds.append(raised)
            time.sleep(chance.uniform(0, 1.2))
            process.kill()
            process.wait()
            notified = {name: len(webhook.received) for name, webhook in servers.items()}
            report(f"{number}: killed, messages so far: {notified}")
        channels, routing = _opened(file)
        for _ in range(3):
            deliver(lake, channels, routing=routing)
            time.sleep(4.5)
        deliver(lake, channels, routing=routing)
        return _result(servers, fired, over, taken)


def _ended(lake: Lake, raised: Sequence[Incident]) -> list[Incident]:
    incidents = find(lake, [incident.incident_id for incident in raised])
    return [incident for incident in (resolved(one, present()) for one in incidents) if incident]


def _result(
    servers: dict[str, Webhook], fired: set[str], over: set[str], taken: set[str]
) -> Result:
    expected = {("FIRING", text) for text in fired} | {("RESOLVED", text) for text in over}
    missing, repeated = {}, {}
    for name, server in servers.items():
        notified, repeated[name] = counted(map(_lines, server.received))
        wanted = expected
        if name == "lead":
            wanted = {line for line in expected if line[1] not in taken}
        missing[name] = sum(not notified[line] for line in wanted)
    escalated = {line[1] for row in servers["lead"].received for line in _lines(row)}
    return Result(
        expected=len(expected),
        missing=missing,
        repeated=repeated,
        wrongly_escalated=len(escalated & taken),
    )


def _lines(message: dict[str, Any]) -> list[tuple[str, str]]:
    if "message" in message:
        return LINE.findall(f"{message['title']}\n{message['message']}")
    return [(message["transition"]["transition"], message["subject"])]


def _opened(file: Path) -> tuple[list[Channel], Routing]:
    routing = read_rule_set(file).routing
    channels, mistakes = open_channels(NotificationSettings(urls=""), routing.used_receivers, {})
    if mistakes:
        raise SystemExit("\n".join(mistakes))
    # Not the log, which has a line for each incident.
    return channels[1:], routing


def main() -> None:
    """Run it and exit 1 when something was forgotten or repeated too often."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--seed", type=int, default=random.randrange(1_000_000))
    parser.add_argument("--deliver", nargs=2, metavar=("HOME", "RULES"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.deliver:
        home, rules = options.deliver
        deliver_for_ever(home, *_opened(Path(rules)))
    print_line(f"seed {options.seed}")
    with tempfile.TemporaryDirectory() as folder:
        notifier = routed_notifier(Path(folder), options.kills, options.seed, print_line)
    print_line(f"{options.kills} kills, {notifier}")
    if any(notifier.missing.values()) or notifier.wrongly_escalated:
        sys.exit(1)
    if any(count > options.kills for count in notifier.repeated.values()):
        sys.exit(1)


if __name__ == "__main__":
    main()
