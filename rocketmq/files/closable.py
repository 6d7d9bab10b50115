"""What holds files open and is used in a ``with``."""

from abc import ABC, abstractmethod
from typing import Self


class Closable(ABC):
    """Closes itself where its ``with`` ends."""

    @abstractmethod
    def close(self) -> None:
        """Close what is open."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
