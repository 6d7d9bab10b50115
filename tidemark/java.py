"""Which Java there is."""

import re
import shutil
import subprocess

from tidemark.errors import CommandError

LEAST = 17

INSTALL = (
    "install it with: apt-get install openjdk-17-jdk-headless (Debian, Ubuntu), "
    "dnf install java-17-openjdk-devel (Fedora, RHEL) or brew install openjdk@17 (macOS)"
)


def require_java() -> int:
    """The major version of the Java that will be started.

    Raises:
        CommandError: when there is none, or it is too old.
    """
    found = java_version()
    if found is None:
        raise CommandError(f"no Java found, Spark needs {LEAST} or newer; {INSTALL}")
    if found < LEAST:
        raise CommandError(f"Java {found} is too old, Spark needs {LEAST} or newer; {INSTALL}")
    return found


def java_version() -> int | None:
    """The major version of ``java``, None when there is none."""
    path = shutil.which("java")
    if path is None:
        return None
    done = subprocess.run([path, "-version"], capture_output=True, text=True, timeout=30)
    match = re.search(r'version "(?:1\.)?(\d+)', done.stderr + done.stdout)
    return int(match[1]) if match else None
