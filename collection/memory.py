"""What a collector remembers of a cluster between snapshots: its name, brokers, last deep one.

The name server forgets a broker the moment it is killed. Without this memory the next snapshot
would be complete, and everything on that broker gone without a word.
"""

import json
import re
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from rocketmq.records import Snapshot
from rocketmq.snapshot.target import Remembered
from settings.constants import MEMORY
from settings.home import Home, write_whole


@dataclass
class Memory:
    """The memory of one configured cluster.

    Attributes:
        path: the file it is kept in.
        cluster: the name the cluster was last seen under, None before the first snapshot.
        brokers: when each (broker, broker id, address) last responded.
        deep_at: when its last deep snapshot started, None before.
    """

    path: Path
    cluster: str | None = None
    brokers: dict[Remembered, datetime] = field(default_factory=dict)
    deep_at: datetime | None = None

    @classmethod
    def of(cls, home: Home, target: str) -> "Memory":
        """The memory of the cluster configured as `target`; empty when there is none to read."""
        return cls._read(home.path / "collector" / (re.sub(r"[^\w.-]+", "_", target) + ".json"))

    @classmethod
    def _read(cls, path: Path) -> "Memory":
        try:
            found = json.loads(path.read_text())
            brokers = {
                (row["broker"], row["broker_id"], row["address"]): datetime.fromisoformat(
                    row["answered_at"]
                )
                for row in found["brokers"]
            }
            deep_at = found.get("deep_at")
            deep_at = None if deep_at is None else datetime.fromisoformat(deep_at)
            return cls(path, found["cluster"], brokers, deep_at)
        except (OSError, ValueError, KeyError, TypeError):
            return cls(path)

    def remembered(self, now: datetime) -> tuple[Remembered, ...]:
        """The brokers that responded within the last 24 hours."""
        return tuple(sorted(key for key, at in self.brokers.items() if now - at <= MEMORY))

    def kin(self, now: datetime) -> tuple[tuple[Remembered, ...], ...]:
        """What the other memories of this home remember: some may be of the same cluster.

        It can be configured by its name, and by each of its name servers.
        """
        others = sorted(path for path in self.path.parent.glob("*.json") if path != self.path)
        return tuple(self._read(path).remembered(now) for path in others)

    def learn(self, snapshot: Snapshot, is_deep: bool = False) -> None:
        """Takes in who responded, and forgets an address whose broker responds at a new one.

        Members of a broker group can swap their ids, so an address is known by its group; it keeps
        the id it was last expected under.
        """
        responded = {
            (row.broker, row.broker_id, row.address)
            for row in snapshot.brokers
            if row.version is not None
        }
        if responded:
            self.cluster = snapshot.cluster
            self.deep_at = snapshot.observed_at.astimezone(UTC) if is_deep else self.deep_at
        known = {(broker, address) for broker, _, address in self.brokers}
        moved = {broker for broker, _, address in responded if (broker, address) not in known}
        expected = {(row.broker, row.address): row.broker_id for row in snapshot.brokers}
        kept = {
            (broker, expected.get((broker, address), broker_id), address): at
            for (broker, broker_id, address), at in self.brokers.items()
            if (broker, address) in expected or broker not in moved
        }
        self.brokers = kept | dict.fromkeys(responded, snapshot.observed_at.astimezone(UTC))
        self._write()

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
        self.path.parent.mkdir(parents=True, exist_ok=True)
        found = {
            "cluster": self.cluster,
            "deep_at": self.deep_at.isoformat() if self.deep_at else None,
            "brokers": rows,
        }
        write_whole(self.path, json.dumps(found, indent=1))
