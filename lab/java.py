"""The Java that runs the lab: where it is and whether it is new enough."""

import functools
import os

from lab.errors import LabError
from settings.java import path_of, version_of

OLDEST = 17
INSTALL = f"install a JDK {OLDEST} or newer, e.g.: sudo apt install openjdk-{OLDEST}-jdk-headless"


@functools.cache
def find(tool: str) -> str:
    """Return the path of a JDK tool (``java``, ``javac``), from ``JAVA_HOME``, else ``PATH``.

    Raises:
        LabError: there is none, or it is older than Java 17.
    """
    path = path_of(tool)
    if path is None:
        home = os.environ.get("JAVA_HOME")
        where = f"in JAVA_HOME={home}" if home else "on PATH"
        raise LabError(f"no {tool} {where}: {INSTALL}")
    version = version_of(path)
    if version is None or version < OLDEST:
        shown = f"Java {version}" if version else "no version"
        raise LabError(f"{path} is too old ({shown}): {INSTALL}")
    return path
