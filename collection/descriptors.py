"""File descriptors of a process that collects several clusters: each has its share.

The addresses that a name server lists decide how many connections a snapshot opens. Without a share
one cluster could take the descriptors of all others, and those of the files that snapshots land in.
"""

import resource
from collections.abc import Sequence
from dataclasses import replace

from rocketmq.wire.client import MAX_CONNECTIONS
from settings.clusters import Cluster

FOR_CLUSTERS = 0.5
"""Part of the descriptors that connections may take; files, databases and lookups have the rest."""

FEWEST = 8
"""Connections that a cluster may have open in any case."""

WANTED = 8_192
"""Descriptors that suffice for thirty clusters of the largest kind."""


def raise_limit() -> None:
    """Raise the limit of this process, as far as it may: 1,024 is for programs of another age."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = WANTED if hard == resource.RLIM_INFINITY else min(WANTED, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def sharing_descriptors(clusters: Sequence[Cluster]) -> list[Cluster]:
    """Return the clusters, each with a limit on connections that leaves the others theirs."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or not clusters:
        return list(clusters)
    share = max(FEWEST, int(soft * FOR_CLUSTERS) // len(clusters))
    limit = {"max_connections": min(share, MAX_CONNECTIONS)}
    return [replace(each, limits={**(each.limits or {}), **limit}) for each in clusters]
