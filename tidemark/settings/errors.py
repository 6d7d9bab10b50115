"""The error of settings that cannot be used."""

from collections.abc import Iterable


class SettingsError(ValueError):
    """Settings that cannot be used.

    Attributes:
        mistakes: one line each.
    """

    def __init__(self, mistakes: Iterable[str]) -> None:
        self.mistakes = tuple(mistakes)
        super().__init__("; ".join(self.mistakes))
