"""Memory and descriptors of a process that collects, and what it remembers of clusters.

Among this is replication in time: how long ago a master's commit log ended where its slave's ends
now. Brokers report bytes only. The ends of the master's commit log at earlier snapshots date them,
as offsets of a queue date its messages.
"""

import json
import os
import re
import resource
from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from operator import itemgetter

from tidemark.host.state import State
from tidemark.rocketmq.records import Broker, Snapshot
from tidemark.rocketmq.snapshot.target import Remembered
from tidemark.rocketmq.wire.client import MAX_CONNECTIONS
from tidemark.settings.clusters import Cluster
from tidemark.settings.sections import MEMORY


def use_system_allocator() -> None:
    """Let Arrow use the C library's allocator, unless the environment names another.

    Arrow's own takes memory in steps for large data, which is 19 MB of a collector that needs 130.
    It has to be called before pyarrow is imported.
    """
    os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "system")


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
    return [replace(cluster, limits={**(cluster.limits or {}), **limit}) for cluster in clusters]


FOLDER = "collector"


MOST_REMEMBERED = 2_000
"""Brokers that the memory of a cluster holds, the last to respond: name servers decide how many
there are, and every snapshot reads the memories of all clusters."""

COPIED_WITHIN = timedelta(minutes=2)
"""A slave has copied the consumer offsets by then: every minute on 5.x, every 10 s on 4.x
(`SlaveSynchronize`)."""

LONGEST_NAME = 200
"""Bytes of a file's name without its endings; file systems take 255."""


def name_of(target: str) -> str:
    """Return the name of a configured cluster's memory and lease."""
    text = re.sub(r"[^\w.-]+", "_", shortened(target))
    return f"{FOLDER}/{text}"


def shortened(target: str) -> str:
    """Return the key of a configured cluster, short enough for the name of a file.

    The key of a cluster without a name is its name servers; four names in Kubernetes are too long.
    """
    text = target.encode()
    if len(text) <= LONGEST_NAME:
        return target
    return f"{text[:100].decode(errors='ignore')}-{sha256(text).hexdigest()[:16]}"


@dataclass(kw_only=True)
class Memory:
    """The memory of one configured cluster.

    Attributes:
        state: where it is kept.
        name: its name there.
        cluster: the name the cluster was last seen under, None before the first snapshot.
        brokers: when each (broker, broker id, address) last responded.
        deep_at: when its last deep snapshot started, None before.
        deep_turns: number of deep snapshots; each requests items that the one before left out.
        collected_at: when its last snapshot started, None before.
        every: seconds between the snapshots of the last collector; None for a single snapshot.
        collector: the collector that took it, where it takes more than one.
        copies: by address of a slave, `Broker.offsets_copied` and `Broker.offsets_late` of the last
            deep snapshot.
        ends: by broker group with a slave, ends of its master's commit log, for
            `date_replicas`.
    """

    state: State
    name: str
    cluster: str | None = None
    brokers: dict[Remembered, datetime] = field(default_factory=dict)
    deep_at: datetime | None = None
    deep_turns: int = 0
    collected_at: datetime | None = None
    every: float | None = None
    collector: str | None = None
    copies: dict[str, tuple[int, int]] = field(default_factory=dict)
    ends: dict[str, list[tuple[datetime, int]]] = field(default_factory=dict)

    @classmethod
    def of(cls, state: State, target: str) -> "Memory":
        """Return the memory of the cluster configured as `target`; empty where none is readable."""
        return cls._read(state, name_of(target) + ".json")

    @classmethod
    def _read(cls, state: State, name: str) -> "Memory":
        try:
            content = json.loads(state.read(name) or "{}")  # ValueError where it is not even text
            brokers = {
                (row["broker"], row["broker_id"], row["address"]): datetime.fromisoformat(
                    row["answered_at"]
                )
                for row in content["brokers"]
            }
            deep_at, collected_at = (
                datetime.fromisoformat(text) if (text := content.get(at)) else None
                for at in ("deep_at", "collected_at")
            )
            copies = {
                address: (int(copied), int(late))
                for address, (copied, late) in content.get("copies", {}).items()
            }
            ends = {
                broker: [(datetime.fromisoformat(at), int(end)) for at, end in of_broker]
                for broker, of_broker in content.get("ends", {}).items()
            }
            return cls(
                state=state,
                name=name,
                cluster=content["cluster"],
                brokers=brokers,
                deep_at=deep_at,
                deep_turns=int(content.get("deep_turns", 0)),
                collected_at=collected_at,
                every=content.get("every"),
                collector=content.get("collector"),
                copies=copies,
                ends=ends,
            )
        except (ValueError, KeyError, TypeError, AttributeError):
            return cls(state=state, name=name)

    def remembered(self, now: datetime) -> tuple[Remembered, ...]:
        """Return the brokers that responded within the last 24 hours.

        A clock that was set back leaves instants ahead, which may be years away.
        """
        return tuple(sorted(key for key, at in self.brokers.items() if abs(now - at) <= MEMORY))

    def kin(self, now: datetime, without: Iterable[str] = ()) -> tuple[tuple[Remembered, ...], ...]:
        """Return the brokers in the memories of other configurations, maybe of the same cluster.

        A cluster can be configured by its name, and by each of its name servers.

        Args:
            now: the present.
            without: keys of other configured clusters. An attacker who controls the name server of
                one cluster can list brokers of another there, with addresses of its own.
        """
        foreign = {self.name, *(f"{name_of(key)}.json" for key in without)}
        others = [name for name in self.state.names(FOLDER) if name not in foreign]
        return tuple(self._read(self.state, name).remembered(now) for name in others)

    def learn(
        self,
        snapshot: Snapshot,
        is_deep: bool = False,
        every: float | None = None,
        collector: str | None = None,
    ) -> None:
        """Remember brokers that responded, and forget an address whose broker has a new one.

        Also fills `Broker.offsets_stand` of slaves, and how long they are behind their masters.

        Members of a broker group can swap their ids, so an address belongs to its group. It keeps
        the id under which it was last expected.

        Args:
            snapshot: the snapshot.
            is_deep: whether it was a deep snapshot.
            every: seconds until the next one, where the same collector takes it.
            collector: the collector that took it, where it takes more than one.
        """
        responded = {
            (row.broker, row.broker_id, row.address)
            for row in snapshot.brokers
            if row.version is not None
        }
        if responded:
            if is_deep:
                self._compare_copies(snapshot)
            at = snapshot.observed_at.astimezone(UTC)
            self.ends = date_replicas(snapshot.brokers, at, self.ends)
            self.cluster = snapshot.cluster
            self.deep_at = snapshot.observed_at.astimezone(UTC) if is_deep else self.deep_at
            self.deep_turns += is_deep
        self.collected_at, self.every = snapshot.observed_at.astimezone(UTC), every
        self.collector = collector
        known = {(broker, address) for broker, _, address in self.brokers}
        moved = {broker for broker, _, address in responded if (broker, address) not in known}
        expected = {(row.broker, row.address): row.broker_id for row in snapshot.brokers}
        kept = {
            (broker, expected.get((broker, address), broker_id), address): at
            for (broker, broker_id, address), at in self.brokers.items()
            if (broker, address) in expected or broker not in moved
        }
        brokers = kept | dict.fromkeys(responded, snapshot.observed_at.astimezone(UTC))
        newest = sorted(brokers, key=brokers.__getitem__)[-MOST_REMEMBERED:]
        self.brokers = {key: brokers[key] for key in newest}
        self._write()

    def _compare_copies(self, snapshot: Snapshot) -> None:
        is_time = self.deep_at is not None and snapshot.observed_at - self.deep_at >= COPIED_WITHIN
        copies: dict[str, tuple[int, int]] = {}
        for row in snapshot.brokers:
            if row.offsets_copied is None or row.offsets_late is None:
                continue
            copied, late = self.copies.get(row.address, (None, 0))
            if copied is not None and is_time:
                row.offsets_stand = late > 0 and copied == row.offsets_copied
            copies[row.address] = row.offsets_copied, row.offsets_late
        self.copies = copies

    def _write(self) -> None:
        rows = [
            {
                "broker": broker,
                "broker_id": broker_id,
                "address": address,
                "answered_at": at.isoformat(),
            }
            for (broker, broker_id, address), at in sorted(self.brokers.items())
        ]
        values = {
            "cluster": self.cluster,
            "deep_at": self.deep_at.isoformat() if self.deep_at else None,
            "deep_turns": self.deep_turns,
            "collected_at": self.collected_at.isoformat() if self.collected_at else None,
            "every": self.every,
            "collector": self.collector,
            "copies": self.copies,
            "ends": {
                broker: [(at.isoformat(), end) for at, end in ends]
                for broker, ends in self.ends.items()
            },
            "brokers": rows,
        }
        self.state.write(self.name, json.dumps(values, indent=1))


Ends = Sequence[tuple[datetime, int]]
"""Instants of snapshots, in order, each with the end of a master's commit log at it."""

ENDS_REMEMBERED = timedelta(hours=24)
"""Time that ends are remembered."""

FINENESS = 6
"""An end between two others is forgotten when these are closer than this part of its age, so a day
takes some fifty ends, and an age is off by a sixth at most."""


def advanced(ends: Ends, at: datetime, end: int) -> list[tuple[datetime, int]]:
    """Return the ends with one more, without those that are no longer needed.

    A commit log that is shorter than before is another one, as after a failover: nothing that was
    remembered dates it. Nor does a clock that was set back.
    """
    if ends and (ends[-1][1] > end or ends[-1][0] >= at):
        ends = []
    kept: list[tuple[datetime, int]] = []
    for place, (instant, value) in enumerate(ends):
        if at - instant > ENDS_REMEMBERED:
            continue
        following = ends[place + 1][0] if place + 1 < len(ends) else at
        if kept and (following - kept[-1][0]) * FINENESS < at - instant:
            continue
        kept.append((instant, value))
    return [*kept, (at, end)]


@dataclass(frozen=True)
class Behind:
    """How long ago a commit log ended somewhere.

    Attributes:
        time: the time since; at least so much where `is_lower_bound`.
        is_lower_bound: whether it ended there before everything that is remembered.
    """

    time: timedelta
    is_lower_bound: bool = False


NOTHING = timedelta()


def behind(ends: Ends, own: int) -> Behind | None:
    """Return how far a slave is behind; None where no earlier end is known.

    Args:
        ends: those of its master, with that of this snapshot.
        own: the end of the slave's commit log.
    """
    at, end = ends[-1]
    if own >= end:
        return Behind(NOTHING)
    if len(ends) == 1:
        return None
    place = bisect_right(ends, own, key=itemgetter(1))
    if place == 0:
        return Behind(at - ends[0][0], is_lower_bound=True)
    (since, low), (until, high) = ends[place - 1], ends[place]
    return Behind(at - since - (until - since) * ((own - low) / (high - low)))


def date_replicas(
    brokers: Iterable[Broker], at: datetime, remembered: Mapping[str, Ends]
) -> dict[str, list[tuple[datetime, int]]]:
    """Fill how long slaves are behind their masters, and return what is remembered from now on.

    Args:
        brokers: the rows of a snapshot, filled here.
        at: its instant.
        remembered: the ends of masters with slaves, by broker group.
    """
    rows = list(brokers)
    with_slaves = {row.broker for row in rows if row.broker_id}
    ends = {
        row.broker: advanced(remembered.get(row.broker, ()), at, row.commit_log_max_offset)
        for row in rows
        if row.broker_id == 0
        and row.commit_log_max_offset is not None
        and row.broker in with_slaves
    }
    for row in rows:
        if row.replica_behind_bytes is None or row.commit_log_max_offset is None:
            continue
        result = behind(ends[row.broker], row.commit_log_max_offset)
        if result:
            row.replica_behind_ms = round(result.time / timedelta(milliseconds=1))
            row.replica_behind_is_lower_bound = result.is_lower_bound
    # A master that did not respond is as far as it was: its ends still date its slaves later.
    unresponsive = with_slaves - ends.keys()
    return ends | {name: list(remembered[name]) for name in unresponsive & remembered.keys()}
