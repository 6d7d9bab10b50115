"""Owners of groups, with how to reach them and their pages, and the machines of their consumers.

::

    owners:
    - match: {consumer_group: "orders-*"}   # globs; also cluster
      team: orders
      contact: "#orders, +49 30 1234567"
      links: {runbook: "https://wiki.example.com/orders"}

The first entry that matches counts. A group that none matches has no team.

A team is also a right on the board. So a name decides on it, which administrators give, and no
topic: whoever starts a consumer chooses its topics.

No client reports its machine: there is a default, and a file of overrides for groups.
"""

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Self

from pydantic import Field, model_validator

from tidemark.settings.basics import SettingsFile
from tidemark.settings.fields import Globs, GroupMatch, Strict, fits
from tidemark.settings.yaml_documents import read_entries, schema_of_list

TEAM_NAME = r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$"
"""A team is a label of metrics and stands in lists of users, so its name has no blanks."""

_MOST_KNOWN = 200_000
"""Groups whose owner is remembered; all are forgotten beyond it."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class Owner:
    """The team of some groups.

    Attributes:
        team: its name.
        contact: how to reach it; empty without.
        links: name of a page to its address.
    """

    team: str
    contact: str = ""
    links: Mapping[str, str] = field(default_factory=dict)

    @property
    def labels(self) -> dict[str, str]:
        """The labels of incidents of its groups, which routes can match."""
        contact = {"contact": self.contact} if self.contact else {}
        links = {f"link_{name}": address for name, address in self.links.items()}
        return {"team": self.team, **contact, **links}


@dataclass(frozen=True, kw_only=True)
class OwnedGroups:
    """The groups of an entry of the file.

    Attributes:
        match: column name (``cluster, consumer_group``) to globs, of which one must match.
        owner: their team.
    """

    match: Mapping[str, Sequence[str]]
    owner: Owner


class Owners:
    """The owners of groups; the first entry that matches a group counts."""

    def __init__(self, entries: Iterable[OwnedGroups] = ()) -> None:
        """Know the entries in the order of the file."""
        self._entries = tuple(entries)
        self._known: dict[tuple[str, str], Owner | None] = {}

    @property
    def teams(self) -> frozenset[str]:
        """The names of all teams."""
        return frozenset(entry.owner.team for entry in self._entries)

    def of(self, cluster: str | None, group: str | None) -> Owner | None:
        """Return the owner of a group; None where no entry matches it, or there is no group."""
        if not (self._entries and cluster and group):
            return None
        key = cluster, group
        if key not in self._known:
            if len(self._known) >= _MOST_KNOWN:
                self._known = {}
            self._known[key] = owner_of(self._entries, cluster, group)
        return self._known[key]

    def team_of(self, cluster: str | None, group: str | None) -> str | None:
        """Return the team of a group; None without one."""
        owner = self.of(cluster, group)
        return owner.team if owner else None


def owner_of(entries: Iterable[OwnedGroups], cluster: str, group: str) -> Owner | None:
    """Return the owner of a group by the first entry that matches; None without one."""
    columns = {"cluster": cluster, "consumer_group": group}
    return next((entry.owner for entry in entries if fits(entry.match, columns)), None)


class OwnerMatch(Strict, frozen=True):
    """Condition on the groups that a team owns; everything by default."""

    cluster: Globs = ("*",)
    consumer_group: Globs = ("*",)


class OwnerSettings(Strict, frozen=True):
    """One entry of the file; see `Owner`."""

    match: OwnerMatch
    team: Annotated[str, Field(pattern=TEAM_NAME)]
    contact: Annotated[str, Field(max_length=200)] = ""
    links: dict[
        Annotated[str, Field(min_length=1, max_length=64)],
        Annotated[str, Field(pattern=r"^https?://\S+$", max_length=1000)],
    ] = Field(default_factory=dict)

    def owned(self) -> OwnedGroups:
        """Return the groups and their owner that the entry declares."""
        owner = Owner(team=self.team, contact=self.contact, links=self.links)
        return OwnedGroups(match=self.match.model_dump(), owner=owner)


def schema() -> dict[str, Any]:
    """Return the JSON Schema of the file, for editors."""
    return schema_of_list("owners", "Tidemark owners", OwnerSettings)


def read(file: Path, *, required: bool = False) -> tuple[Sequence[OwnedGroups], list[str]]:
    """Return the entries that can be used, and a line for each mistake.

    Args:
        file: mistakes name it as it is given here.
        required: whether it is a mistake when the file does not exist.
    """
    entries, mistakes = read_entries(file, "owners", OwnerSettings, required=required)
    return [entry.owned() for entry in entries], mistakes


class WatchedOwners:
    """The owners of a file, which is read again whenever it changes.

    A file with a mistake changes nothing: a part of its entries would give a group to the team of
    a later entry, and so show it to others.
    """

    def __init__(self, file: SettingsFile | None = None) -> None:
        """Know the file; nothing is read yet.

        Args:
            file: the file; None where nobody declares owners.
        """
        self._file = file
        self._version: tuple[int, int, int] | None = None
        self._owners = Owners()
        self.mistakes: Sequence[str] = ()

    def now(self) -> Owners:
        """Return the owners, as the newest version of the file without a mistake has them."""
        if self._file is None:
            return self._owners
        version = _version(self._file.path)
        if version != self._version:
            entries, self.mistakes = read(self._file.path, required=self._file.required)
            self._version = version
            if self.mistakes:
                _log.warning("owners stay as they were: %s", "; ".join(self.mistakes))
            else:
                self._owners = Owners(entries)
        return self._owners


def _version(path: Path) -> tuple[int, int, int]:
    try:
        stat = path.stat()
    except OSError:
        return 0, 0, 0
    return stat.st_ino, stat.st_mtime_ns, stat.st_size


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
    """One entry of the file; see `Machine`."""

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


def read_machines(
    file: Path, *, required: bool = False
) -> tuple[Sequence[MachineOverride], list[str]]:
    """Return the entries that can be used, and a line for each mistake.

    Args:
        file: mistakes name it as it is given here.
        required: whether it is a mistake when the file does not exist.
    """
    entries, mistakes = read_entries(file, "capacity", MachineSettings, required=required)
    return [entry.override() for entry in entries], mistakes
