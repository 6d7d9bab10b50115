"""The wheel, installed in an environment of its own, as an image or a host runs it."""

import functools
import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

from tests.support.checkout import ROOT, tracked


def run(*command: str | Path, folder: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run a command in a folder, without the checkout on its path."""
    environment = {
        name: value
        for name, value in os.environ.items()
        if name != "PYTHONPATH" and not name.startswith(("TIDEMARK_", "DAGSTER_"))
    }
    return subprocess.run(
        [str(part) for part in command],
        cwd=folder,
        env=environment | variables,
        capture_output=True,
        text=True,
    )


def built_packages(factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Return the source package of the tracked files, and the wheel that was built from it."""
    return _built(factory.getbasetemp())


def installed_wheel(factory: pytest.TempPathFactory) -> Path:
    """Return the bin folder of a new environment that holds the wheel and sees the locked rest."""
    return _installed(factory.getbasetemp())


@functools.cache
def _built(base: Path) -> tuple[Path, Path]:
    folder = base / "packages"
    folder.mkdir()
    for path in tracked():
        copy = folder / "source" / path.relative_to(ROOT)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, copy)
    build = ["-m", "build", "--no-isolation", "--outdir", folder, folder / "source"]
    built = run(sys.executable, *build, folder=folder)
    assert built.returncode == 0, built.stdout + built.stderr
    shutil.rmtree(folder / "source")
    (source,) = folder.glob("tidemark-*.tar.gz")
    (wheel,) = folder.glob("tidemark-*.whl")
    return source, wheel


@functools.cache
def _installed(base: Path) -> Path:
    folder = base / "wheel"
    folder.mkdir()
    _, wheel = _built(base)
    environment = folder / "environment"
    made = run(sys.executable, "-m", "venv", "--without-pip", environment, folder=folder)
    assert made.returncode == 0, made.stderr
    python = environment / "bin" / "python"
    install = ["-m", "pip", "--python", python, "install", "--no-deps", "--no-index", wheel]
    got = run(sys.executable, *install, folder=folder)
    assert got.returncode == 0, got.stderr
    (site,) = (environment / "lib").glob("python*/site-packages")
    # A plain path: files like the one of an editable install are not followed from there.
    (site / "locked.pth").write_text(sysconfig.get_path("purelib") + "\n")
    for name in ("dagster", "dagster-daemon", "dagster-webserver"):
        _, script = Path(sys.executable).with_name(name).read_text().split("\n", 1)
        program = environment / "bin" / name
        program.write_text(f"#!{python}\n{script}")
        program.chmod(0o755)
    return environment / "bin"
