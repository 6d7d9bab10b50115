"""Checks of paths that return a result, not an error, where permission to read is missing."""

from pathlib import Path

from rocketmq.files.errors import FileError


def is_folder(path: Path) -> bool:
    """Return whether a path is a folder that can be seen."""
    try:
        return path.is_dir()
    except OSError:
        return False


def may_exist(path: Path) -> bool:
    """Return whether a path exists, or cannot be seen."""
    try:
        path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError:
        return True
    return True


def is_dangling(path: Path) -> bool:
    """Return whether a path is a link without a target, as to a disk that is not mounted."""
    return path.is_symlink() and not may_exist(path)


def require_target(folder: Path) -> None:
    """Refuse a link without a target, because its contents are unknown and not empty.

    Raises:
        FileError: the folder is such a link.
    """
    if is_dangling(folder):
        raise FileError(folder, "links to what is not there")
