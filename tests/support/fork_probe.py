"""Module that the fork server runs in its tests: it reports its state, or waits for its end."""

import os
import sys
import time
from pathlib import Path


def main() -> None:
    """Do what the first argument names.

    ``tell CODE`` writes down what this process sees, ``modules PACKAGE...`` which modules of these
    packages are imported; ``wait PATH`` writes its id and waits.
    """
    word, rest = sys.argv[1], sys.argv[2:]
    if word == "tell":
        print("to standard output")  # noqa: T201
        print("to standard error", file=sys.stderr)  # noqa: T201
        print(os.environ["PROBE"], Path.cwd(), sys.stdin.read(), sep="|")  # noqa: T201
        sys.exit(int(rest[0]))
    if word == "modules":
        print(*(name for name in sys.modules if name.partition(".")[0] in rest))  # noqa: T201
        return
    Path(rest[0]).write_text(str(os.getpid()))
    try:
        time.sleep(600)
    except KeyboardInterrupt:
        sys.exit(42)
