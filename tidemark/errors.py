"""Failures as a person reads them: one line that says what, where and what to do."""

from lake.failures import OURS, essence


class CommandError(Exception):
    """A command cannot do what it was asked; the text says why and what to do."""


def one_line(error: BaseException) -> str:
    """The failure in one line; a kind of error that does not explain itself is named."""
    if isinstance(error, OSError) and error.strerror:
        where = f" ({error.filename})" if error.filename else ""
        return f"{error.strerror}{where}"
    text = essence(str(error))
    speaks_for_itself = type(error).__module__.split(".")[0] in OURS
    return text if text and speaks_for_itself else f"{type(error).__name__}: {text or 'no reason'}"
