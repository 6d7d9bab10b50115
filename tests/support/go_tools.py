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

HAS_HELM = bool(_GIVEN or GO)
"""Whether there is a Helm, or a Go that can build one."""


@cache
def helm() -> str:
    """Return the path of a Helm: of ``HELM``, on ``PATH``, or built by Go, which takes minutes."""
    if _GIVEN:
        return _GIVEN
    package, version = _HELM
    folder = cache_folder() / "go" / f"helm-{version}"
    folder.mkdir(parents=True, exist_ok=True)
    with FileLock(folder / "lock"):
        if not (folder / "helm").exists():
            _go("install", f"{package}@{version}", GOBIN=str(folder))
    return str(folder / "helm")


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
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    return done.stdout


if __name__ == "__main__":
    print(helm() if HAS_HELM else "no Go and no Helm: tests of the chart are skipped")  # noqa: T201
