"""What the fork server runs in its tests: tells where it is, or waits to be ended."""

import os
import sys
import time
from pathlib import Path


def main() -> None:
    """``tell CODE`` writes down what this process sees; ``wait`` writes its id and waits."""
    word, rest = sys.argv[1], sys.argv[2:]
    if word == "tell":
        print("to standard output")  # noqa: T201
        print("to standard error", file=sys.stderr)  # noqa: T201
        print(os.environ["PROBE"], Path.cwd(), sys.stdin.read(), sep="|")  # noqa: T201
        sys.exit(int(rest[0]))
    Path(rest[0]).write_text(str(os.getpid()))
    try:
        time.sleep(600)
    except KeyboardInterrupt:
        sys.exit(42)
