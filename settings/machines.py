"""Machines of consumers, which no client reports: the default and overrides for groups."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Machine:
    """The machine that the clients of a group run on; None = not configured.

    Attributes:
        cores: cores that a client may use.
        compute_ms: milliseconds of a listener call that use a processor and do not wait.
        compute_share: share of a listener call that does, instead of `compute_ms`.
    """

    cores: float | None = None
    compute_ms: float | None = None
    compute_share: float | None = None


@dataclass(frozen=True)
class MachineOverride:
    """The machine of the groups that a match selects.

    Attributes:
        match: column name (``cluster, consumer_group, topic``) to globs, of which one must match.
        machine: their machine; a field that it leaves out is as configured for every group.
    """

    match: Mapping[str, Sequence[str]]
    machine: Machine


@dataclass(frozen=True, kw_only=True)
class Sizing:
    """Settings of the number of members that a group needs.

    Attributes:
        most_used: largest share of their capacity that the needed members use at the peak. Without
            spare capacity a backlog never drains.
        fewest_messages: fewest consumed messages for a measurement of the time of a listener call;
            with fewer it is unknown.
    """

    most_used: float = 0.8
    fewest_messages: int = 30


DEFAULT_SIZING = Sizing()
