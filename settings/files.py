"""Settings files that a process reads: those of the home, unless a variable names another."""

from dataclasses import dataclass
from pathlib import Path

from settings.home import Home


@dataclass(frozen=True)
class SettingsFile:
    """A settings file, or a folder of them.

    Attributes:
        path: where it is.
        required: whether it has to exist, because a variable names it.
    """

    path: Path
    required: bool = False

    @classmethod
    def of(cls, home: Home, default_name: str, named: str = "") -> "SettingsFile":
        """Return the file that a variable names, else that of the default name in the home."""
        return cls(Path(named), required=True) if named else cls(home.path / default_name)

    @property
    def missing(self) -> bool:
        """Whether it does not exist and need not."""
        return not self.required and not self.path.exists()
