"""The workload: a Java program whose clients make brokers report every state of a group.

This module compiles, starts and controls it. Its tasks are in ``workload/``, one class for each.
"""

import shlex
import time
from collections.abc import Callable
from pathlib import Path

from tidemark.lab import compiling
from tidemark.lab.config import logback
from tidemark.lab.layout import LabError
from tidemark.model.spelling import did_you_mean

GROUPS = (
    "g-fast",
    "g-two",
    "g-slow",
    "g-filter",
    "g-stuck",
    "g-hung",
    "g-broadcast",
    "g-retry",
    "g-dlq",
    "g-idle",
    "g-inconsistent",
    "g-orderly",
    "g-pull",
    "g-gone",
)
"""Every consumer group that any version can run; ``workload/Groups.java`` describes each."""

WORKLOADS: dict[str, tuple[str, ...]] = {
    "all": GROUPS,
    "steady": ("g-fast", "g-two", "g-slow"),
    "trouble": ("g-fast", "g-stuck", "g-hung", "g-gone", "g-slow"),
    "filters": ("g-fast", "g-filter", "g-inconsistent"),
    "redelivery": ("g-fast", "g-retry", "g-dlq"),
    "pop": ("g-fast", "g-pop", "g-pop-stuck"),
}
"""Named sets of groups; `pop` on 5.x. Producers always write to all topics of the workload."""

TOPICS = ("lab_orders", "lab_ordered", "lab_broadcast", "lab_two", "lab_hung")
"""Every topic the producers write to; ``lab_two`` lies on two brokers, the others on the first."""


def require_known(name: str) -> None:
    """Check the name of a workload.

    Raises:
        LabError: unknown; names those there are.
    """
    if name not in WORKLOADS:
        meant = did_you_mean(name, WORKLOADS)
        raise LabError(f"no workload {name!r}{meant or ':'} known are {', '.join(WORKLOADS)}")


class Workload:
    """A workload's folder, by which its process gets commands and reports results.

    The process writes ``ready`` once it produces. It stops producing while ``pause`` exists, and
    writes ``paused`` with the number of sent messages by topic.
    """

    def __init__(self, folder: Path) -> None:
        """A handle on ``folder``; nothing is read or started."""
        self.folder = folder
        self.log = folder / "output.log"

    def prepare(
        self,
        version: str,
        namesrv: str,
        masters: list[str],
        groups: tuple[str, ...],
        rate: float,
    ) -> list[str]:
        """Compile if needed, remove files of an earlier run, and return the command line.

        Raises:
            LabError: it cannot be compiled, or the rate is not above 0.
        """
        if not rate > 0:
            raise LabError(
                f"a workload needs a rate above 0, not {rate:g}: leave it or give --rate"
            )
        self.folder.mkdir(parents=True, exist_ok=True)
        (self.folder / "logback.xml").write_text(logback(self.folder))
        for name in ("ready", "pause", "paused"):
            (self.folder / name).unlink(missing_ok=True)
        return [
            *compiling.command(version, self.folder),
            str(self.folder),
            namesrv,
            ",".join(masters),
            ",".join(groups),
            f"{rate:g}",
        ]

    def wait_until_ready(self, alive: Callable[[], bool], seconds: float) -> None:
        """Wait until consumers run and messages flow.

        Raises:
            LabError: it ended, or was not ready in time.
        """
        self._wait(alive, seconds, (self.folder / "ready").exists, "start")

    def pause(self, alive: Callable[[], bool], seconds: float) -> dict[str, int]:
        """Stop producing; messages sent by topic."""
        (self.folder / "pause").touch()
        paused = self.folder / "paused"
        self._wait(alive, seconds, paused.exists, "stop producing")
        words = shlex.split(paused.read_text())
        return {topic: int(count) for topic, _, count in (word.partition("=") for word in words)}

    def go_on(self, alive: Callable[[], bool], seconds: float) -> None:
        """Produce again."""
        (self.folder / "pause").unlink(missing_ok=True)
        self._wait(alive, seconds, lambda: not (self.folder / "paused").exists(), "go on producing")

    def _wait(
        self, alive: Callable[[], bool], seconds: float, done: Callable[[], bool], what: str
    ) -> None:
        deadline = time.monotonic() + seconds
        while not done():
            if not alive():
                raise LabError(f"the workload ended before it could {what}: see {self.log}")
            if time.monotonic() > deadline:
                raise LabError(f"the workload did not {what} within {seconds:g} s: see {self.log}")
            time.sleep(0.05)
