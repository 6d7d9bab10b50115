"""Machines of consumers, which no client reports: the default and overrides for groups."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Self

from pydantic import Field, model_validator

from tidemark.settings.fields import GroupMatch, Strict
from tidemark.settings.yaml_documents import read_entries


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


Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]


class MachineSettings(Strict, frozen=True):
    """One entry of the file; see `tidemark.settings.machines.Machine`."""

    match: GroupMatch
    cores: Positive | None = None
    compute_ms: Positive | None = None
    compute_share: Annotated[float, Field(gt=0, le=1)] | None = None

    @model_validator(mode="after")
    def _states_computing_once(self) -> Self:
        if self.compute_ms is not None and self.compute_share is not None:
            raise ValueError("compute_ms or compute_share is wanted, not both")
        return self

    def override(self) -> MachineOverride:
        """Return the override that the entry states."""
        machine = Machine(self.cores, self.compute_ms, self.compute_share)
        return MachineOverride(self.match.model_dump(), machine)


def read(file: Path, *, required: bool = False) -> tuple[Sequence[MachineOverride], list[str]]:
    """Return the entries that can be used, and a line for each mistake.

    Args:
        file: mistakes name it as it is given here.
        required: whether it is a mistake when the file does not exist.
    """
    entries, mistakes = read_entries(file, "capacity", MachineSettings, required=required)
    return [entry.override() for entry in entries], mistakes
