"""The one error of the lab: a line with what failed, where and what to do."""


class LabError(Exception):
    """What went wrong in one line: what, where and what to do."""
