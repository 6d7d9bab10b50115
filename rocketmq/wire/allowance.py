"""The allowance of a snapshot: how much one cluster may make this process read and keep.

The other side decides what it sends. Without a bound one name server or broker would take the
memory of all clusters of the process. A response that exceeds a bound becomes a problem of the
snapshot, which names the bound; no response is cut.
"""

from dataclasses import dataclass

MAX_BYTES = 192 * 1024 * 1024
"""Bytes received for one snapshot: a queue takes 130, so a million of them, with their commits."""

MAX_VALUES_OF_BODY = 3_000_000
"""Values of one body, which take some 60 bytes each: 100,000 topics or groups as brokers describe
them, or a million and a half commits."""

MAX_VALUES = 8_000_000
"""Values of all large bodies of a snapshot."""

SMALL_BODY = 64 * 1024
"""Bytes of a body up to which its values are not counted: `MAX_BYTES` bounds them."""


@dataclass(slots=True)
class Allowance:
    """Bytes and values that one snapshot has received, and their limits.

    Attributes:
        max_bytes: bytes received at most.
        received: bytes received.
        values: values of large bodies.
    """

    max_bytes: int = MAX_BYTES
    received: int = 0
    values: int = 0

    @property
    def is_used_up(self) -> bool:
        """Whether nothing more may be received."""
        return self.received > self.max_bytes

    @property
    def reason(self) -> str:
        """Why nothing more is received, in one line."""
        mib = self.max_bytes / 2**20
        return f"a snapshot may receive {mib:g} MiB (max_mib in clusters.yaml), which are used up"

    def refuse_large(self, body: bytes) -> str | None:
        """Return why a body may not be decoded, in one line; None where it may."""
        if len(body) <= SMALL_BODY:
            return None
        values = most_values(body)
        if values > MAX_VALUES_OF_BODY:
            return f"a body too large: up to {values} values (limit {MAX_VALUES_OF_BODY})"
        if self.values + values > MAX_VALUES:
            return f"a body too large: all of a snapshot have {MAX_VALUES} values at most"
        self.values += values
        return None


def most_values(body: bytes) -> int:
    """Return how many values a JSON body has at most, without reading it.

    Each value but the outermost follows one of these characters.
    """
    return 1 + sum(map(body.count, (b",", b":", b"[", b"{")))
