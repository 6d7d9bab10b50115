"""A log filter that keeps addresses, which hold secrets, out of every log during a send."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock


class AddressFilter(logging.Filter):
    """Keeps log lines that hold addresses from every handler, and collects apprise's warnings.

    apprise reports the reason of a failure only in its log, which also holds addresses; several
    loggers of urllib3 name their paths. apprise sends in threads of its own. So every line logged
    during a send counts as part of it, and only one message is sent at a time.
    """

    def __init__(self) -> None:
        super().__init__()
        self._sending = Lock()
        self._lines: list[str] | None = None

    def install(self) -> None:
        """Filter the loggers that may name addresses; a second call changes nothing."""
        # A filter holds for its own logger alone, so each module's logger needs it.
        for name in tuple(logging.root.manager.loggerDict):
            if name.split(".")[0] in ("apprise", "urllib3"):
                logging.getLogger(name).addFilter(self)

    @contextmanager
    def warnings(self) -> Iterator[list[str]]:
        """Collect the warnings of apprise while the context is open."""
        with self._sending:
            self._lines = lines = []
            try:
                yield lines
            finally:
                self._lines = None

    def filter(self, record: logging.LogRecord) -> bool:
        """Return whether a line may pass, as it does not concern a send of ours."""
        ours = record.name == "apprise"
        lines = self._lines
        if ours and lines is not None and record.levelno >= logging.WARNING:
            lines.append(record.getMessage())
        return not ours and lines is None


ADDRESS_FILTER = AddressFilter()
"""The filter of this process."""
