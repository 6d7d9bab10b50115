"""What asks one master many small questions, within a limit."""

from dataclasses import dataclass

from rocketmq.client import RemotingClient
from rocketmq.problems import Problems


@dataclass(slots=True)
class MasterReader:
    """Asks one master; failures go to the problems.

    Attributes:
        broker: name of its broker group.
        address: ``host:port``.
        limit: requests at most.
    """

    client: RemotingClient
    problems: Problems
    broker: str
    address: str
    limit: int
