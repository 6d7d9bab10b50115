"""``lab.json``: the started processes of a lab, by which any later process finds them."""

from pathlib import Path

from pydantic import BaseModel, ValidationError

from lab.errors import LabError
from lab.layout import Node
from lab.processes import Process


class State(BaseModel):
    """The record of a lab in its home: nodes and started processes.

    Attributes:
        version: RocketMQ version of every node.
        nodes: in the order they start.
        secure: whether it requires an account and TLS.
        processes: by node name, and ``workload``; a name is absent when it was never started.
    """

    version: str
    nodes: list[Node]
    secure: bool = False
    processes: dict[str, Process] = {}

    def running(self) -> dict[str, int]:
        """Return the process ids by name, of those that run now."""
        return {name: process.pid for name, process in self.processes.items() if process.find()}


class StateFile:
    """The file a `State` is kept in."""

    def __init__(self, home: Path) -> None:
        """A handle on ``home/lab.json``; nothing is read."""
        self._home = home
        self._path = home / "lab.json"

    def exists(self) -> bool:
        """Return whether a lab was ever started in this home."""
        return self._path.exists()

    def read(self) -> State:
        """Return the state in the file.

        Raises:
            LabError: there is none, or it cannot be read.
        """
        try:
            return State.model_validate_json(self._path.read_bytes())
        except FileNotFoundError:
            raise LabError(f"no lab in {self._home}: start one with: tidemark lab up") from None
        except (OSError, ValidationError) as error:
            reason = str(error).splitlines()[0]
            raise LabError(f"cannot read {self._path} ({reason})") from error

    def write(self, state: State) -> None:
        """Replace the file, by rename: a reader sees the old or the new."""
        partial = self._path.with_suffix(".partial")
        partial.write_text(state.model_dump_json(indent=2))
        partial.replace(self._path)

    def record(self, name: str, process: Process) -> None:
        """Write down one more process."""
        state = self.read()
        state.processes[name] = process
        self.write(state)
