"""The name of the person at the command line, which is recorded with actions."""

import getpass


def me() -> str:
    """Return the name of their account."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return "somebody"
