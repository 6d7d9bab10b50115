"""Cost of ten thousand active alerts: a tick against the same tick without any, and notifying them.

``make bench-storm`` or ``python -m bench.storm [--rounds N]``. Two homes hold the same past,
`bench.past.Past`; in one of them ten rules are true of every group and topic, in the other one the
same ten are true of none. Ticks go in turns, because machines drift. Then all is sent to a webhook.
"""

import argparse
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from bench import report
from bench.compute import home_with_engine, tick
from bench.past import Past
from bench.tick import STAGES, stage_seconds
from tests.support.notification_servers import serve
from tidemark.alerting.delivery.channels import AppriseChannel
from tidemark.alerting.delivery.outbox import deliver
from tidemark.lake.catalog import Lake
from tidemark.lake.clocks import HOUR, floor_hour
from tidemark.lake.tables import alerting

RULES = 10
NEVER = 10**15
"""Messages that no group is behind."""

WARMING = 8
"""Ticks before those that count."""


@dataclass(frozen=True)
class Side:
    """A home with its rules.

    Attributes:
        lake: its tables.
        rules: the file of its rules.
    """

    lake: Lake
    rules: Path

    def tick(self, past: Past, minute: int) -> tuple[float, float]:
        """Puts a minute and ticks: seconds of all, and of what makes alerts and incidents."""
        os.environ["TIDEMARK_RULES"] = str(self.rules)
        wall, steps = tick(past, self.lake, minute)
        return wall, stage_seconds(steps, STAGES["alert"])


def main() -> None:
    """Measures, prints the section and writes it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5, help="ticks of each home that count")
    options = parser.parse_args()
    past = Past(start=floor_hour(datetime.now(UTC)) - HOUR)
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        calm = stack.enter_context(_side(Path(folder) / "calm", NEVER))
        storm = stack.enter_context(_side(Path(folder) / "storm", 0))
        pairs = []
        for minute in range(WARMING + options.rounds):
            pairs.append((calm.tick(past, minute), storm.tick(past, minute)))
        text = "\n\n".join([_ticks(past, storm, pairs[WARMING:]), _notifying(storm.lake)])
    sys.stdout.write(text + "\n")
    report.write_section("storm", text)


@contextmanager
def _side(path: Path, threshold: int) -> Iterator[Side]:
    """A home with a warm engine, whose rules are true of groups further behind than that."""
    rules = path / "rules.yaml"
    lines = [
        f"  - {{name: lag-{number}, kind: lag, threshold: {threshold}, for: 1}}\n"
        for number in range(RULES)
    ]
    with home_with_engine(path) as home:
        rules.write_text("rules:\n" + "".join(lines))
        yield Side(Lake(home), rules)


def _ticks(past: Past, storm: Side, pairs: list[tuple[tuple[float, float], ...]]) -> str:
    active = sum(
        row["state"] == "FIRING" for row in storm.lake.read(alerting.INCIDENTS).to_pylist()
    )
    more = [with_alerts[0] / without[0] - 1 for without, with_alerts in pairs]
    rows = [
        [name, *(report.spread([pair[side][column] for pair in pairs], ".1f") for side in (0, 1))]
        for column, name in enumerate(("whole tick", "alerts and incidents"))
    ]
    return (
        f"## A tick with {active:,} active alerts\n\n"
        f"{RULES} rules on {past.groups * past.topics_per_group:,} groups and topics, "
        f"{past.group_queues:,} group queues; {report.machine()}. Ticks on warm engines, in turns; "
        "median (least to most). Made by `make bench-storm`.\n\n"
        + report.table(["seconds", "no rule is true", "every rule is true of all"], rows)
        + f"\n\nSlower by {statistics.median(more):.0%} "
        f"({min(more):.0%} to {max(more):.0%}), pair by pair."
    )


def _notifying(lake: Lake) -> str:
    """Notify a webhook of all of it, at once."""
    with serve() as hook:
        started = time.perf_counter()
        delivered = deliver(lake, [AppriseChannel(hook.url)])
        seconds = time.perf_counter() - started
        return (
            f"Notifying the {delivered.notifications:,} transitions to a webhook: "
            f"{len(hook.received)} messages, {seconds:.1f} s, outside the tick."
        )


if __name__ == "__main__":
    main()
