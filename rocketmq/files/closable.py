"""The base of objects that hold files open and close them at the end of a ``with``."""

from abc import ABC, abstractmethod
from typing import Self


class Closable(ABC):
    """Closes itself at the end of its ``with``."""

    @abstractmethod
    def close(self) -> None:
        """Close all open files."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
