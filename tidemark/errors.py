"""Failures of commands, in one line: what failed, where, and what to do."""


class CommandError(Exception):
    """A command cannot do its work; the text names the reason and what to do."""
