"""The base of readers that send many small requests to one master, within a limit."""

from dataclasses import dataclass

from rocketmq.snapshot.problems import Problems
from rocketmq.wire.client import RemotingClient


@dataclass(slots=True)
class MasterReader:
    """Sends requests to one master; failures go to the problems.

    Attributes:
        broker: name of its broker group.
        address: ``host:port``.
        limit: requests at most.
        turn: number of the deep snapshot, see `rocketmq.deep.choice`.
        left_out: items that the limit left out, counted by `read`.
    """

    client: RemotingClient
    problems: Problems
    broker: str
    address: str
    limit: int
    turn: int = 0
    left_out: int = 0
