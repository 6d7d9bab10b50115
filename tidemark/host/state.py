"""Small state that processes share in addition to the tables: texts by name.

The texts are memories of collectors, silences and marks of deliveries: a few kilobytes that are
replaced as a whole. `FileState` keeps them as files of a home,
`tidemark.host.postgresql.PostgresqlState` as rows. A process that reads and then writes a text must
hold the lease of its subject.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import TypeVar

import msgspec

from tidemark.host.failures import one_line
from tidemark.settings.home import Home, write_whole

T = TypeVar("T")


class StateError(OSError):
    """Shared state cannot be read or written; one line."""


class State(ABC):
    """The texts of one deployment."""

    @abstractmethod
    def read(self, name: str) -> str | None:
        """Return a text, None where there is none.

        Raises:
            OSError: it cannot be read.
        """

    @abstractmethod
    def write(self, name: str, text: str) -> None:
        """Replace a text atomically.

        Raises:
            OSError: it cannot be written; then it is as it was.
        """

    @abstractmethod
    def remove(self, name: str) -> None:
        """Remove a text, where there is one.

        Raises:
            OSError: it cannot be removed.
        """

    @abstractmethod
    def names(self, folder: str = "") -> list[str]:
        """Return the names of the texts in a folder, or of all; in order."""


def decoded(
    state: State,
    name: str,
    kind: type[T],
    failure: Callable[[str], Exception],
    *,
    empty: str = "[]",
    advice: str = "delete it to start over",
) -> T:
    """Return the content of a text of JSON.

    Args:
        state: where it is kept.
        name: its name.
        kind: type of its content.
        failure: makes the error where it cannot be read, of one line.
        empty: the text where there is none.
        advice: on a text that holds something else; one that only cannot be reached must stay.
    """
    try:
        return msgspec.json.decode(state.read(name) or empty, type=kind)
    except OSError as error:  # a `StateError` is one
        raise failure(str(error)) from error
    except (msgspec.DecodeError, UnicodeError) as error:
        raise failure(f"{name}: cannot be read: {error}; {advice}") from error


class KeptState(State):
    """A copy of the texts of another state, for the time in which that state cannot be used.

    A server may be unreachable, or the disk of a home full. Snapshots then land elsewhere.

    Args:
        state: where the texts are.
        warn: receives a line when it cannot be used any more.
    """

    def __init__(self, state: State, warn: Callable[[str], None]) -> None:
        self._state, self._warn = state, warn
        self._is_away = False
        self._known: dict[str, str | None] = {}
        self._unwritten: set[str] = set()

    def read(self, name: str) -> str | None:
        """See `State`; the text last read or written where it cannot be reached."""
        if name in self._unwritten:
            return self._known[name]  # a disk that is full still gives the text before
        try:
            self._known[name] = self._state.read(name)
            self._is_away = bool(self._unwritten)
        except StateError as error:
            self._report(error)
        return self._known.get(name)

    def write(self, name: str, text: str) -> None:
        """See `State`; a text that cannot be written now is kept for this process."""
        self._known[name] = text
        try:
            self._state.write(name, text)
            self._unwritten.discard(name)
            self._is_away = bool(self._unwritten)
        except StateError as error:
            self._report(error)
        except OSError as error:
            self._unwritten.add(name)
            self._report(error)

    def remove(self, name: str) -> None:
        """See `State`."""
        self._known.pop(name, None)
        self._unwritten.discard(name)
        self._state.remove(name)

    def names(self, folder: str = "") -> list[str]:
        """See `State`; those known where it cannot be reached."""
        try:
            return self._state.names(folder)
        except StateError:
            return sorted(name for name in self._known if name.startswith(f"{folder}/"))

    def _report(self, error: OSError) -> None:
        if not self._is_away:
            self._warn(f"{one_line(error)}; going on with what this process remembers")
        self._is_away = True


class FileState(State):
    """Texts as files of a home."""

    def __init__(self, home: Home) -> None:
        self._home = home

    def read(self, name: str) -> str | None:
        """See `State`."""
        try:
            return (self._home.path / name).read_text()
        except FileNotFoundError:
            return None

    def write(self, name: str, text: str) -> None:
        """See `State`."""
        path = self._home.make() / name
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, text)

    def remove(self, name: str) -> None:
        """See `State`."""
        (self._home.path / name).unlink(missing_ok=True)

    def names(self, folder: str = "") -> list[str]:
        """See `State`."""
        where = self._home.path / folder
        paths = [*where.glob("*.json"), *where.glob("raw_since")]
        if not folder:
            paths += where.glob("collector/*.json")
        return sorted(path.relative_to(self._home.path).as_posix() for path in paths)
