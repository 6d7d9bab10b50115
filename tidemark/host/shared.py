"""Leases and small state, which the processes of a deployment share besides the tables."""

from dataclasses import dataclass

from tidemark.host.leases import FileLeases, Leases
from tidemark.host.state import FileState, State
from tidemark.settings.home import Home


@dataclass(frozen=True)
class Shared:
    """Leases and small state of one deployment.

    Attributes:
        leases: the rights of single processes.
        state: texts that outlive a process.
    """

    leases: Leases
    state: State

    @classmethod
    def of_home(cls, home: Home) -> "Shared":
        """Return those of the processes of one host: files of the home."""
        return cls(FileLeases(home), FileState(home))

    @classmethod
    def of_database(cls, uri: str, place: str) -> "Shared":
        """Return those of the processes of all hosts that use a PostgreSQL database.

        Args:
            uri: SQLAlchemy's address of it.
            place: how errors name it.
        """
        # Imported here: commands of the embedded size need no SQLAlchemy for it.
        from tidemark.host.postgresql import PostgresqlLeases, PostgresqlState

        return cls(PostgresqlLeases(uri, place), PostgresqlState(uri, place))
