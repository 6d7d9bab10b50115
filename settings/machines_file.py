"""The settings file of capacity: the machines of clients, for single groups.

::

    capacity:
    - match: {consumer_group: "billing-*"}   # globs; also cluster and topic
      cores: 8
      compute_share: 0.2                     # the rest of a listener call waits for a database
    - match: {}                              # all others
      compute_ms: 5

The first entry that matches a group on a topic counts. A field that it leaves out has the value of
``TIDEMARK_CLIENT_CORES`` or ``TIDEMARK_CLIENT_COMPUTE_MS``.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Self

from pydantic import Field, model_validator

from settings.fields import Strict
from settings.machines import Machine, MachineOverride
from settings.matching import GroupMatch
from settings.yaml_documents import read_entries

Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]


class MachineSettings(Strict, frozen=True):
    """One entry of the file; see `settings.machines.Machine`."""

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
    return [each.override() for each in entries], mistakes
