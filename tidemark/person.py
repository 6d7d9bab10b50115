"""The person at the command line."""

import getpass


def me() -> str:
    """Return the name of their account."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return "somebody"
