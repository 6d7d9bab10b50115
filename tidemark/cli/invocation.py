"""The settings of the process, as its entry has read them, for the command that runs in it."""

import sys
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import typer

from tidemark.embedded import forking
from tidemark.settings.basics import BasicSettings
from tidemark.settings.home import Home

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
