"""A process of a home that outlives the command that started it, found again by its state file."""

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Self

import psutil

STOP_SECONDS = 20


@dataclass(frozen=True)
class Service:
    """A started process; what else must be known of it is added by its kind.

    Attributes:
        pid: its process.
        created: start time of that process, so that a reused id is never taken for it.
    """

    pid: int
    created: float

    @classmethod
    def read(cls, state: Path) -> Self | None:
        """What a state file says, None without a readable one."""
        try:
            return cls(**json.loads(state.read_text()))
        except (FileNotFoundError, ValueError, TypeError):
            return None

    def write(self, state: Path) -> None:
        """Writes it down."""
        state.write_text(json.dumps(asdict(self)))

    def process(self) -> psutil.Process | None:
        """Its process, None when it is gone."""
        try:
            process = psutil.Process(self.pid)
            alive = process.is_running() and process.status() != psutil.STATUS_ZOMBIE
            return process if alive and abs(process.create_time() - self.created) < 1 else None
        except psutil.NoSuchProcess:
            return None

    def stop(self) -> bool:
        """Ends it, by force when it does not end by itself; False when it was gone already."""
        process = self.process()
        if process is None:
            return False
        process.terminate()
        try:
            process.wait(STOP_SECONDS)
        except psutil.TimeoutExpired:
            process.kill()
            process.wait(STOP_SECONDS)
        return True
