"""Typed responses of name servers: the brokers of a cluster (106)."""

from dataclasses import dataclass
from typing import Any

from tidemark.rocketmq.typed_values import integer, object_of, short_text, short_texts
from tidemark.rocketmq.wire.fastjson import loads

MAX_LISTED = 20_000
"""Addresses that one name server lists at most, of all its clusters."""


@dataclass(slots=True, frozen=True, kw_only=True)
class BrokerGroup:
    """One broker group of 106: a master and its slaves.

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
    """All brokers that a name server lists; ``clusters`` maps a cluster to its broker names."""

    brokers: dict[str, BrokerGroup]
    clusters: dict[str, list[str]]

    def clusters_by_broker(self) -> dict[str, set[str]]:
        """Return the clusters of each broker name: more than one where two clusters share it.

        The addresses are those of whichever registered last.
        """
        values = {broker: {group.cluster} for broker, group in self.brokers.items()}
        for cluster, brokers in self.clusters.items():
            for broker in brokers:
                if broker in values:
                    values[broker].add(cluster)
        return values


def decode_broker_cluster_info(body: bytes) -> ClusterInfo:
    """Decode a 106 body."""
    mapping = object_of(loads(body))
    groups = object_of(mapping["brokerAddrTable"]).items()
    clusters = object_of(mapping["clusterAddrTable"]).items()
    info = ClusterInfo(
        {short_text(name): _broker_group(data) for name, data in groups},
        {short_text(name): short_texts(brokers) for name, brokers in clusters},
    )
    listed = sum(len(group.addresses) for group in info.brokers.values())
    named = sum(map(len, info.clusters.values()))
    for number, kind in ((listed, "broker addresses"), (named, "brokers of clusters")):
        if number > MAX_LISTED:
            raise ValueError(f"a list of {number} {kind} (limit {MAX_LISTED})")
    return info


def _broker_group(data: dict[str, Any]) -> BrokerGroup:
    addresses = {integer(int(number)): short_text(at) for number, at in data["brokerAddrs"].items()}
    acting = bool(data.get("enableActingMaster"))
    return BrokerGroup(
        broker=short_text(data["brokerName"]),
        cluster=short_text(data["cluster"]),
        addresses=addresses,
        acting_master=acting,
    )
