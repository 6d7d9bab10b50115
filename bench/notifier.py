"""kill -9 of the notifier at random moments: each transition is notified, one twice a kill at most.

Each round raises a few incidents and ends others, lets a process send them to a real HTTP server,
and kills it at a random moment of that. In the end one that nobody kills delivers the rest.
``python -m bench.notifier [--kills 50]``
"""

import argparse
import random
import re
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import NoReturn

from bench.soak import print_line
from tests.support.notification_servers import serve
from tidemark.alerting.delivery.channels import AppriseChannel, Channel
from tidemark.alerting.delivery.outbox import EVERYWHERE, deliver
from tidemark.alerting.incidents.incident import Incident, Transition, incident_id
from tidemark.alerting.incidents.life_cycle import resolved
from tidemark.alerting.incidents.repository import save
from tidemark.alerting.rules.routing import Routing
from tidemark.lake.catalog import Lake
from tidemark.model.incidents import IncidentState, TransitionKind, TransitionName
from tidemark.settings.home import Home

RAISED = 3
"""Incidents a round; few enough that one message has all of them in full."""

SECONDS = 0.6
"""A delivery takes about a third of that, so kills fall before, into and after it."""

LINE = re.compile(r"^\[\w+\] (FIRING|RESOLVED) lag: (\S+)$", re.MULTILINE)
"""A line of a message: transition and subject."""

Notified = Counter[tuple[str, str]]
"""Number of notifications of each transition of a subject."""


@dataclass(frozen=True, kw_only=True)
class Result:
    """The result of a bench.

    Attributes:
        expected: transitions there were.
        missing: of them, those that were never notified.
        repeated: messages that repeated something.
        disordered: incidents that resolved before they fired.
    """

    expected: int
    missing: int
    repeated: int
    disordered: int


def notifier(folder: Path, kills: int, seed: int, report: Callable[[str], None]) -> Result:
    """Kills that many notifiers.

    Args:
        folder: an empty folder for the home.
        kills: how many.
        seed: of the moments.
        report: called with what happens, one line each.
    """
    lake, chance = Lake(Home.of(folder)), random.Random(seed)
    standing: list[Incident] = []
    expected: list[tuple[str, str]] = []
    with serve() as hook:
        for number in range(kills):
            process = deliverer("bench.notifier", lake.home, hook.url)
            ended = [
                incident for incident in (resolved(one, present()) for one in standing) if incident
            ]
            raised = [new_incident(f"lab/g-{number}-{item}/orders") for item in range(RAISED)]
            save(lake, standing, [*ended, *raised])
            expected += [("RESOLVED", incident.subject) for incident in ended]
            expected += [("FIRING", incident.subject) for incident in raised]
            standing = raised
            moment = chance.uniform(0, SECONDS)
            time.sleep(moment)
            process.kill()
            process.wait()
            report(f"{number}: killed at {moment:.2f} s, {len(hook.received)} messages so far")
        deliver(lake, [AppriseChannel(hook.url)])
        messages = [LINE.findall(row["message"]) for row in hook.received]
    notified, repeated = counted(messages)
    first = {line: number for number, lines in reversed([*enumerate(messages)]) for line in lines}
    return Result(
        expected=len(expected),
        missing=sum(not notified[line] for line in expected),
        repeated=repeated,
        disordered=sum(
            first.get(("RESOLVED", subject), len(messages)) < first.get(("FIRING", subject), 0)
            for _, subject in expected
        ),
    )


def counted(messages: Iterable[Sequence[tuple[str, str]]]) -> tuple[Notified, int]:
    """Return how often each transition was notified, and how many messages repeated one.

    Args:
        messages: the transitions and subjects of each, in the order of their arrival.
    """
    notified, repeated = Notified(), 0
    for lines in messages:
        repeated += any(notified[line] for line in lines)
        notified.update(lines)
    return notified, repeated


def deliverer(module: str, home: Home, target: str) -> subprocess.Popen[str]:
    """Start a process that delivers again and again; it is at it when this returns.

    Args:
        module: has the option ``--deliver HOME TARGET``.
        home: of the incidents.
        target: the address of deliveries.
    """
    process = subprocess.Popen(
        [sys.executable, "-m", module, "--deliver", str(home.path), target],
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout
    process.stdout.readline()
    return process


def deliver_for_ever(
    home: str, channels: Sequence[Channel], routing: Routing = EVERYWHERE
) -> NoReturn:
    """Deliver again and again, and print a line after the first time."""
    lake = Lake(Home.of(home))
    deliver(lake, channels, routing=routing)
    print_line("at it")
    while True:
        deliver(lake, channels, routing=routing)
        time.sleep(0.02)


def new_incident(subject: str) -> Incident:
    """Return an incident that fires now."""
    now = present()
    return Incident(
        incident_id=incident_id("lag", subject, now),
        rule="lag",
        subject=subject,
        severity="critical",
        state=IncidentState.FIRING,
        opened_at=now - timedelta(minutes=2),
        cluster="lab",
        kind="lag",
        threshold=1.0,
        observed_at=now,
        last_true_at=now,
        fired_at=now,
        last_value=2.0,
        peak_value=2.0,
        transitions=(Transition(TransitionName.of(TransitionKind.FIRING, 1), now),),
    )


def present() -> datetime:
    """Return the present instant."""
    return datetime.now(UTC)


def main() -> None:
    """Runs it and exits 1 when something was forgotten or repeated too often."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--seed", type=int, default=random.randrange(1_000_000))
    parser.add_argument("--deliver", nargs=2, metavar=("HOME", "URL"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.deliver:
        home, url = options.deliver
        deliver_for_ever(home, [AppriseChannel(url)])
    print_line(f"seed {options.seed}")
    with tempfile.TemporaryDirectory() as folder:
        result = notifier(Path(folder), options.kills, options.seed, print_line)
    print_line(
        f"{options.kills} kills, {result.expected} transitions: {result.missing} not notified, "
        f"{result.repeated} messages repeated something, {result.disordered} in the wrong order"
    )
    if result.missing or result.disordered or result.repeated > options.kills:
        sys.exit(1)


if __name__ == "__main__":
    main()
