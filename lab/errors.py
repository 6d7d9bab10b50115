"""The one error of this package."""


class LabError(Exception):
    """What went wrong in one line: what, where and what to do."""
