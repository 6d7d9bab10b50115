"""Live snapshots that a test sets in place of those of a broker."""

from tests.support.board_home import CLUSTER
from tidemark.board.http_responses import ProblemError
from tidemark.rocketmq.records import Snapshot


class Live:
    """Stands for the snapshots of a reachable cluster."""

    def __init__(self, taken: Snapshot) -> None:
        self.taken = taken

    async def of(self, name: str) -> Snapshot:
        if name != CLUSTER:
            raise ProblemError(404, f"{name!r} cannot be read from here")
        return self.taken
