"""The names that a cluster may have, whether a person, a file or RocketMQ gives them.

The name is part of a folder of the landing, of every row and of every page. It is checked where it
is read, so that no command accepts a name that another refuses.
"""

LONGEST = 100
"""Characters, as the file of clusters takes them."""

LONGEST_BYTES = 200
"""Bytes. The folder of a snapshot adds 28 to it, and a file system takes 255."""


def fault(name: str) -> str | None:
    """Return why a cluster cannot have a name, in a few words; None where it can."""
    if not name.strip():
        return "a name without a visible character"
    if any("\ud800" <= char <= "\udfff" for char in name):
        return "a name that is no UTF-8"
    if len(name) > LONGEST:
        return f"a name of {len(name)} characters, {name[:20]!r}...: {LONGEST} are the most"
    if _bytes_in_path(name) > LONGEST_BYTES:
        return f"a name that takes more than {LONGEST_BYTES} bytes in a path, {name[:20]!r}..."
    return None


def _bytes_in_path(name: str) -> int:
    # Characters that no folder may have are written as three.
    odd = sum(char in "%/\x7f" or char < " " for char in name)
    return len(name.encode()) + 2 * odd
