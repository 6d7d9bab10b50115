"""Choice of Arrow's memory allocator in a process that collects."""

import os


def use_system_allocator() -> None:
    """Let Arrow use the C library's allocator, unless the environment names another.

    Arrow's own takes memory in steps for large data, which is 19 MB of a collector that needs 130.
    It has to be called before pyarrow is imported.
    """
    os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "system")
