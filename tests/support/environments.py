"""Virtual environments of packages that Tidemark does not need, made once for this user."""

import shutil
import subprocess
import sys
from pathlib import Path

from filelock import FileLock

from tidemark.lab.jars import cache_folder


def environment(*packages: str) -> Path:
    """Return the bin folder of an environment that has these packages and what they need.

    Args:
        packages: ``NAME==VERSION``; the folder is named by them.
    """
    folder = cache_folder() / "environments" / "-".join(it.replace("==", "-") for it in packages)
    folder.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(folder.with_name(f"{folder.name}.lock")):
        if not folder.exists():
            partial = folder.with_name(f"{folder.name}.part")
            subprocess.run([sys.executable, "-m", "venv", "--clear", partial], check=True)
            install = [partial / "bin" / "python", "-m", "pip", "install", "--quiet", *packages]
            subprocess.run(install, check=True)
            shutil.move(partial, folder)
    return folder / "bin"
