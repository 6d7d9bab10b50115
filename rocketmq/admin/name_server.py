"""Typed responses of name servers: the brokers of a cluster (106), the route of a topic (105)."""

from dataclasses import dataclass
from typing import Any

from rocketmq.typed_values import (
    integer,
    object_of,
    text,
    texts,
)
from rocketmq.wire.fastjson import loads


@dataclass(slots=True, frozen=True)
class BrokerGroup:
    """One broker group of 106 or 105: a master and its slaves.

    Attributes:
        broker: the name of the broker group.
        cluster: the cluster that the group reports it belongs to.
        addresses: ``host:port`` by broker id; 0 is the master.
        acting_master: whether its smallest id may act as master when 0 is gone (5.x).
    """

    broker: str
    cluster: str
    addresses: dict[int, str]
    acting_master: bool = False


@dataclass(slots=True, frozen=True)
class ClusterInfo:
    """Every broker that a name server knows; ``clusters`` maps a cluster to its broker names."""

    brokers: dict[str, BrokerGroup]
    clusters: dict[str, list[str]]

    def clusters_of(self, broker: str) -> set[str]:
        """Return the clusters of a broker name: more than one where two clusters share it.

        The addresses are those of whichever registered last.
        """
        listed = {cluster for cluster, brokers in self.clusters.items() if broker in brokers}
        return listed | {self.brokers[broker].cluster}


@dataclass(slots=True, frozen=True)
class QueueData:
    """The queues of a topic on one broker, in a route; ``perm`` bits: 4 read, 2 write."""

    broker: str
    read_queues: int
    write_queues: int
    perm: int


@dataclass(slots=True, frozen=True)
class TopicRoute:
    """The brokers and queues of a topic."""

    brokers: dict[str, BrokerGroup]
    queues: list[QueueData]


def decode_broker_cluster_info(body: bytes) -> ClusterInfo:
    """Decode a 106 body."""
    found = object_of(loads(body))
    groups = object_of(found["brokerAddrTable"]).items()
    clusters = object_of(found["clusterAddrTable"]).items()
    return ClusterInfo(
        {text(name): _broker_group(data) for name, data in groups},
        {text(name): texts(brokers) for name, brokers in clusters},
    )


def decode_topic_route(body: bytes) -> TopicRoute:
    """Decode a 105 body; its integer keys may be quoted (for a client from 4.9.4 on)."""
    found = object_of(loads(body))
    groups = [_broker_group(data) for data in found.get("brokerDatas") or ()]
    queues = [
        QueueData(data["brokerName"], data["readQueueNums"], data["writeQueueNums"], data["perm"])
        for data in found.get("queueDatas") or ()
    ]
    return TopicRoute({group.broker: group for group in groups}, queues)


def _broker_group(data: dict[str, Any]) -> BrokerGroup:
    addresses = {integer(int(number)): text(at) for number, at in data["brokerAddrs"].items()}
    acting = bool(data.get("enableActingMaster"))
    return BrokerGroup(text(data["brokerName"]), text(data["cluster"]), addresses, acting)
