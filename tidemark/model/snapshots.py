"""Snapshots: where they are read from, and how much of a cluster they hold."""

from enum import StrEnum


class SnapshotSource(StrEnum):
    """Sources of snapshots: brokers or their files; the values of ``source``.

    A snapshot that names no source is one of brokers.
    """

    REMOTE = "remote"
    STORE = "store"
    LOCAL_OFFSETS = "local_offsets"
    STATS_LOG = "stats_log"


WITHOUT_QUEUES = (SnapshotSource.LOCAL_OFFSETS, SnapshotSource.STATS_LOG)
"""Sources of snapshots that never hold queues."""


class SnapshotStatus(StrEnum):
    """Completeness of a snapshot: the values of ``status`` in ``raw.snapshots``."""

    COMPLETE = "COMPLETE"
    PARTIAL = "PARTIAL"
    FAILED = "FAILED"
