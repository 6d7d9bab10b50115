"""Helm, and files of public Go modules, from Go's module proxy; cached for this user.

Go checks what it downloads against its checksum database, and keeps it.
"""

import json
import os
import shutil
import subprocess
from functools import cache
from pathlib import Path

from filelock import FileLock

from tidemark.lab.jars import cache_folder

GO = shutil.which("go")

_HELM = ("helm.sh/helm/v3/cmd/helm", "v3.19.5")
_GIVEN = os.environ.get("HELM") or shutil.which("helm")
_BUILT = cache_folder() / "go" / f"helm-{_HELM[1]}" / "helm"

HAS_HELM = bool(_GIVEN) or _BUILT.exists()
"""Whether there is a Helm; ``python -m tests.support.go_tools`` builds one."""

LONGEST_BUILD = 300
"""Seconds after which a build ends, so that a slow machine still tests everything else."""


def helm() -> str:
    """Return the path of a Helm: of ``HELM``, on ``PATH``, or the one that was built."""
    return _GIVEN or str(_BUILT)


def build() -> str:
    """Build Helm by Go, unless there is one; return a line about it.

    Go keeps the packages that it has compiled: a build that was ended is continued by the next.
    """
    if HAS_HELM:
        return helm()
    if not GO:
        return "no Go and no Helm: tests of the chart are skipped"
    _BUILT.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(_BUILT.with_name("lock")):
        try:
            _go("install", "@".join(_HELM), GOBIN=str(_BUILT.parent))
        except subprocess.TimeoutExpired:
            return f"no Helm after {LONGEST_BUILD} s: tests of the chart are skipped"
    return str(_BUILT)


@cache
def module(path: str, version: str) -> Path:
    """Return the folder with the files of a module."""
    return Path(json.loads(_go("mod", "download", "-json", f"{path}@{version}"))["Dir"])


def _go(*arguments: str, **variables: str) -> str:
    assert GO
    done = subprocess.run(
        [GO, *arguments],
        cwd=cache_folder(),  # no module of a checkout
        env=os.environ | variables,
        capture_output=True,
        text=True,
        timeout=LONGEST_BUILD,
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    return done.stdout


if __name__ == "__main__":
    print(build())  # noqa: T201
