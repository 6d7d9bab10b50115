"""Numbers that whoever runs Tidemark may set in the environment."""

import os


def whole_number(name: str, default: int) -> int:
    """What a variable of the environment says, from 1 on; the default where it says nothing.

    Raises:
        SystemExit: it says something else, in one line; nothing can be computed meanwhile.
    """
    text = os.environ.get(name) or str(default)
    if not text.strip().isdecimal() or int(text) < 1:
        raise SystemExit(f"tidemark: {name} is {text!r}: it takes a whole number from 1 on")
    return int(text)
