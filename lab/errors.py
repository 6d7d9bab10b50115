"""The one error of the lab: a line with what failed, where and what to do."""


class LabError(Exception):
    """A failure of the lab, in one line: what failed, where, and what to do."""
