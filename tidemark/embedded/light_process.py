"""Savings of short processes that only read tables: no pandas, no garbage collection."""

import gc
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.abc import MetaPathFinder
from typing import Any


class _NoPandas(MetaPathFinder):
    """Finds pandas nowhere, as if it were not installed."""

    def find_spec(self, name: str, path: Sequence[str] | None, target: Any = None) -> None:
        if name == "pandas":
            raise ModuleNotFoundError("this process does without pandas", name=name)


def leave_out_pandas() -> None:
    """Keep pandas out of this process, unless it has been imported already.

    Where pandas is installed, PyArrow imports it for any list and with its datasets: 0.3 s of a
    command that reads a table, and 43 MB. Only Spark and Great Expectations use it.
    """
    if "pandas" not in sys.modules:
        sys.meta_path.insert(0, _NoPandas())


@contextmanager
def keeping_garbage() -> Iterator[None]:
    """Suspend garbage collection meanwhile.

    Nearly all objects of a command that ends after a second are modules and rows, which stay. Each
    garbage collection visits them all, which took a sixth of the command's time.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
