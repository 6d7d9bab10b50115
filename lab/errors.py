"""The one error of the lab: a line with the failure, its place and the remedy."""


class LabError(Exception):
    """A failure of the lab, in one line: the failure, its place and the remedy."""
