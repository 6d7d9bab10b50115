"""The Java of this machine: the paths of its tools, and their version."""

import os
import re
import shutil
import subprocess
from pathlib import Path

SECONDS = 60


def path_of(tool: str) -> str | None:
    """Return the path of ``java`` or ``javac``, from ``JAVA_HOME``, else from ``PATH``."""
    home = os.environ.get("JAVA_HOME")
    return shutil.which(tool, path=str(Path(home) / "bin") if home else None)


def version_of(path: str) -> int | None:
    """Return the feature version of a tool, 17 of 17.0.15; None where it prints none."""
    done = subprocess.run(
        [path, "-version"], capture_output=True, text=True, timeout=SECONDS, check=False
    )
    # `openjdk version "17.0.15"`, `javac 17.0.15`, and `"1.8.0_292"` before Java 9.
    version = re.search(r'(?:version "|javac )(?:1\.)?(\d+)', done.stdout + done.stderr)
    return int(version[1]) if version else None
