"""The Java of a Spark on this machine: where it is, and whether Spark runs on it."""

import os
import re
import shutil
import subprocess
from pathlib import Path

from spark.session.reaching import UnreachableError

OLDEST, NEWEST = 17, 23
"""Spark 4.1 is compiled for Java 17. When it starts, Hadoop's `UserGroupInformation` calls
`javax.security.auth.Subject.getSubject`, which throws from Java 24 on."""

REMEDY = f"install a JDK of Java {OLDEST} to {NEWEST}, or name the one there is with JAVA_HOME"

VERSION_SECONDS = 60


def require_java() -> None:
    """Check that Spark runs on the Java that it will find.

    Raises:
        UnreachableError: there is none, or Spark does not run on it.
    """
    home = os.environ.get("JAVA_HOME")
    found = shutil.which("java", path=str(Path(home) / "bin") if home else None)
    if found is None:
        raise UnreachableError(f"no java on PATH or in JAVA_HOME: {REMEDY}")
    printed = subprocess.run(
        [found, "-version"], capture_output=True, text=True, timeout=VERSION_SECONDS, check=False
    )
    # `openjdk version "17.0.15"`, and `"1.8.0_292"` before Java 9.
    version = re.search(r'version "(?:1\.)?(\d+)', printed.stderr + printed.stdout)
    if version is None or not OLDEST <= int(version[1]) <= NEWEST:
        shown = f"Java {version[1]}" if version else "no Java of a known version"
        raise UnreachableError(f"{found} is {shown}, on which Spark does not run: {REMEDY}")
