"""Who sits at the command line."""

import getpass


def me() -> str:
    """The name that the system knows them by."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return "somebody"
