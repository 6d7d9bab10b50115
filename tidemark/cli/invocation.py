"""The process of a command: settings, shared options, failures, and savings of short ones."""

import gc
import getpass
import shutil
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from importlib.abc import MetaPathFinder
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tidemark.embedded import forking
from tidemark.settings.basics import BasicSettings
from tidemark.settings.home import Home
from tidemark.settings.times import utc_instant

if TYPE_CHECKING:
    from tidemark.host.shared import Shared
    from tidemark.lake.catalog import Lake
    from tidemark.lake.catalog_config import CatalogConfig
    from tidemark.lake.landing_places import Landing
    from tidemark.settings.environment import Settings


@dataclass(frozen=True)
class Invocation:
    """One run of the `tidemark` command.

    Attributes:
        basics: the settings that every command needs.
        had_history: whether there were tables before the command, whose reading makes them.
    """

    basics: BasicSettings
    had_history: bool = True

    @property
    def home(self) -> Home:
        """The folder of all state."""
        return self.basics.home

    @cached_property
    def settings(self) -> "Settings":
        """All settings, read at the first use: commands without a use for them end sooner.

        Raises:
            SettingsError: a variable cannot be used.
        """
        from tidemark.settings.environment import Settings

        return Settings.read()

    def catalog(self) -> "CatalogConfig":
        """Return how the catalog of the tables is reached."""
        from tidemark.lake.catalog_config import CatalogConfig

        return CatalogConfig.of(self.home, self.settings.catalog)

    def nothing(self, sentence: str) -> str:
        """Return a sentence about an empty list, and where nothing was ever computed, that too."""
        if self.had_history:
            return sentence
        return (
            f"{sentence} Nothing is computed in {self.home.path} yet: give tidemark tick first, or "
            "name another home before the command, with --home"
        )

    @property
    def landing(self) -> "Landing":
        """The landing of snapshots."""
        from tidemark.lake.landing_places import Landing

        return Landing.of(self.home, self.settings.catalog)

    @cached_property
    def shared(self) -> "Shared":
        """Leases and small state of all processes that use the tables."""
        from tidemark.host.shared import Shared

        shared = None
        if self.basics.catalog_type or self.basics.has_state_uri:
            shared = self.catalog().shared
        return shared or Shared.of_home(self.home)

    @cached_property
    def lake(self) -> "Lake":
        """The tables."""
        from tidemark.lake.catalog import Lake

        return Lake(self.home, self.catalog())


_current: ContextVar[Invocation] = ContextVar("invocation")


def begin(basics: BasicSettings) -> None:
    """Keep the settings that the entry of the command line has read, for the command."""
    _current.set(Invocation(basics, basics.has_history))


def invocation() -> Invocation:
    """Return the settings that the entry of the command line has read."""
    return _current.get()


def hand_over() -> None:
    """Run this command in a forked process; return where there is no fork server.

    Raises:
        Exit: with the code of the forked process.
    """
    code = forking.run(invocation().home, "tidemark.cli.main", sys.argv[1:])
    if code is not None:
        raise typer.Exit(code)


def path(text: str) -> Path:
    """Return a path; an empty one is no name, though Python takes it for the working folder.

    Raises:
        BadParameter: the text is empty, as a variable without a value leaves it.
    """
    if not text:
        raise typer.BadParameter("it is empty: name a file or folder, . for the working folder")
    return Path(text)


def me() -> str:
    """Return the name of their account."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return "somebody"


def parse(text: str) -> datetime:
    """Return an ISO 8601 instant in UTC, which is also the zone of a text without one.

    Raises:
        BadParameter: the text is not an instant.
    """
    try:
        return utc_instant(text)
    except (ValueError, OverflowError):
        raise typer.BadParameter(
            f"{text!r} is not an ISO 8601 instant, e.g. 2026-11-19T08:00:00Z"
        ) from None


NamesrvOption = Annotated[
    str,
    typer.Option(
        "--namesrv",
        help="Name servers, HOST:PORT separated by ';', else TIDEMARK_NAMESRV.",
    ),
]


class _NoPandas(MetaPathFinder):
    """Finds pandas nowhere, as if it were not installed."""

    def find_spec(self, name: str, path: Sequence[str] | None, target: Any = None) -> None:
        if name == "pandas":
            raise ModuleNotFoundError("this process does without pandas", name=name)


def leave_out_pandas() -> None:
    """Keep pandas out of this process, unless it has been imported already.

    Where pandas is installed, PyArrow imports it for any list and with its datasets: 0.3 s of a
    command that reads a table, and 43 MB. Only Spark and Great Expectations use it.
    """
    if "pandas" not in sys.modules:
        sys.meta_path.insert(0, _NoPandas())


@contextmanager
def keeping_garbage() -> Iterator[None]:
    """Suspend garbage collection meanwhile.

    Nearly all objects of a command that ends after a second are modules and rows, which stay. Each
    garbage collection visits them all, which took a sixth of the command's time.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


FULL_BYTES = 2**20
"""Free space below which no commit fits on a disk."""


class CommandError(Exception):
    """A command cannot do its work; the text names the reason and the remedy."""


class MistakesError(CommandError):
    """A file or folder of settings has mistakes; each is one line of its own.

    Attributes:
        mistakes: the lines.
    """

    def __init__(self, mistakes: Sequence[str]) -> None:
        super().__init__("; ".join(mistakes))
        self.mistakes = tuple(mistakes)


def remedy_of_full_disk(home: Home) -> str:
    """Return an addition to a failure's line where the disk of the home is full, else ''.

    SQLite reports a full disk as an I/O error, or as a database that cannot be opened.
    """
    with suppress(OSError):
        if shutil.disk_usage(home.path).free < FULL_BYTES:
            return f"; the disk of {home.path} is full: make room, then the next tick goes on"
    return ""
