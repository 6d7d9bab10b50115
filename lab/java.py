"""The Java that runs the lab: where it is and whether it is new enough."""

import functools
import os
import re
import shutil
import subprocess
from pathlib import Path

from lab.errors import LabError

OLDEST = 17
INSTALL = f"install a JDK {OLDEST} or newer, e.g.: sudo apt install openjdk-{OLDEST}-jdk-headless"


@functools.cache
def find(tool: str) -> str:
    """Path of a JDK tool (``java``, ``javac``), from ``JAVA_HOME`` or else ``PATH``.

    Raises:
        LabError: there is none, or it is older than Java 17.
    """
    home = os.environ.get("JAVA_HOME")
    path = shutil.which(tool, path=str(Path(home) / "bin")) if home else shutil.which(tool)
    if path is None:
        where = f"in JAVA_HOME={home}" if home else "on PATH"
        raise LabError(f"no {tool} {where}: {INSTALL}")
    printed = subprocess.run([path, "-version"], capture_output=True, text=True, timeout=60)
    text = printed.stdout + printed.stderr
    # `openjdk version "17.0.15"`, `javac 17.0.15`, and `"1.8.0_292"` before Java 9.
    version = re.search(r'(?:version "|javac )(\d+)', text)
    if version is None or int(version[1]) < OLDEST:
        shown = text.strip().splitlines()[0] if text.strip() else "no version"
        raise LabError(f"{path} is too old ({shown}): {INSTALL}")
    return path
