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
    """The machine of some groups.

    Attributes:
        match: column name (``cluster, consumer_group, topic``) to globs, of which one must match.
        machine: theirs; what it leaves out is as configured for every group.
    """

    match: Mapping[str, Sequence[str]]
    machine: Machine


@dataclass(frozen=True, kw_only=True)
class Sizing:
    """How members are counted.

    Attributes:
        most_used: largest share of their capacity that the needed members use at the peak. With
            none to spare a backlog never drains.
        fewest_messages: consumed messages that the time of a listener call is measured over, at
            least; over fewer it is unknown.
    """

    most_used: float = 0.8
    fewest_messages: int = 30


DEFAULT_SIZING = Sizing()
