"""Java programs that take commands on their standard input, see ``shared/Commands.java``."""

import os
import subprocess
from abc import ABC, abstractmethod
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self

from tidemark.lab.cluster import LabCluster
from tidemark.lab.config import logback
from tidemark.lab.layout import LabError

LEAVE_SECONDS = 30.0


class Program(ABC):
    """A program, for as long as the context lasts."""

    def __init__(self, cluster: LabCluster, name: str) -> None:
        """A program of a cluster; nothing is started.

        Args:
            cluster: the cluster of its clients.
            name: of the program and of its folder in the home of the cluster.
        """
        self._cluster = cluster
        self.name = name
        self._folder = cluster.home / name
        self._process: subprocess.Popen[str] | None = None

    @abstractmethod
    def _command_line(self, folder: Path) -> list[str]:
        """Return the command line; compiles the program where these sources were not yet."""

    def __enter__(self) -> Self:
        """Start the program; see `start`."""
        self.start()
        return self

    def start(self) -> None:
        """Start the program.

        Raises:
            LabError: the lab lacks the node of its clients, there is no JDK, or the sources do not
                compile.
        """
        self._folder.mkdir(exist_ok=True)
        (self._folder / "logback.xml").write_text(logback(self._folder))
        command = self._command_line(self._folder)
        with self.log.open("a") as log:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                env={key: value for key, value in os.environ.items() if key != "CLASSPATH"},
            )

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Kill the program; see `kill`."""
        self.kill()

    def kill(self) -> None:
        """Kill the program: its clients vanish as those of a crashed process do."""
        if self._process is not None:
            self._process.kill()
            self._process.communicate()
            self._process = None

    def leave(self) -> None:
        """End the program as a deployment does: its members leave, then the process ends."""
        self._command("leave")
        if self._process is not None:
            with suppress(subprocess.TimeoutExpired):
                self._process.communicate(timeout=LEAVE_SECONDS)
        self.kill()

    @property
    def log(self) -> Path:
        """The text that the program wrote to its standard error."""
        return self._folder / "output.log"

    def behave(self, group: str, behaviour: str) -> None:
        """Change how the program's member of a group handles messages, see `Behaviour.java`."""
        self._command("behave", group, behaviour)

    def counts(self, group: str) -> tuple[int, int]:
        """Messages that the program's member of a group began with, and that it finished."""
        begun, finished = self._command("count", group)
        return begun, finished

    def _command(self, *words: str | int | float) -> list[int]:
        process = self._process
        if process is None or process.stdin is None or process.stdout is None:
            raise LabError(f"{self.name} does not run: use it as a context")
        process.stdin.write(" ".join(map(str, words)) + "\n")
        process.stdin.flush()
        response = process.stdout.readline()
        sign, _, rest = response.strip().partition(" ")
        if sign != "ok":
            raise LabError(f"{words[0]} failed ({rest or 'the program ended'}): see {self.log}")
        return [int(number) for number in rest.split()]
