"""Compiling the workload against the jars of a version, once per version and source."""

import hashlib
import shutil
import subprocess
import tempfile
from pathlib import Path

from filelock import FileLock

from lab import jars, java
from lab.config import OPENS
from lab.errors import LabError

_SOURCES = Path(__file__).parent / "workload"
_MAIN = "Workload"
_PLACEHOLDER = "ROCKETMQ_PROTOCOL"


def command(version: str, folder: Path) -> list[str]:
    """The command line that runs the workload, without its arguments.

    Args:
        version: RocketMQ version whose client it uses.
        folder: where it keeps logs and the offset files of broadcasting consumers.

    Raises:
        LabError: no JDK, or the sources do not compile.
    """
    return [
        java.find("java"),
        *("-Xms64m", "-Xmx192m", "-Xss512k", "-XX:+UseSerialGC", *OPENS),
        f"-Duser.home={folder}",
        f"-Drocketmq.client.logRoot={folder / 'logs'}",
        # 4.9 reads the first of these, 5.x the second.
        f"-Dlogback.configurationFile={folder / 'logback.xml'}",
        f"-Drmq.logback.configurationFile={folder / 'logback.xml'}",
        f"-Drocketmq.client.localOffsetStoreDir={folder / 'broadcast-offsets'}",
        *("-cp", f"{classes(version)}:{jars.fetch(version)}/*", _MAIN),
    ]


def classes(version: str) -> Path:
    """The folder of the compiled workload; compiles it when these sources were not yet.

    Raises:
        LabError: no JDK, or the sources do not compile.
    """
    sources = {path.name: _source(path, version) for path in sorted(_SOURCES.glob("*.java"))}
    digest = hashlib.sha256("\0".join(sources.values()).encode()).hexdigest()[:12]
    folder = jars.cache_folder() / "workload" / f"{version}-{digest}"
    if not folder.is_dir():
        folder.parent.mkdir(parents=True, exist_ok=True)
        with FileLock(folder.parent / ".lock"):
            if not folder.is_dir():
                _compile(sources, jars.fetch(version), folder)
    return folder


def _source(path: Path, version: str) -> str:
    """A source with the package that 5.0 moved put in its place."""
    package = "org.apache.rocketmq.common" if version < "5" else "org.apache.rocketmq.remoting"
    return path.read_text().replace(_PLACEHOLDER, f"{package}.protocol")


def _compile(sources: dict[str, str], jar_folder: Path, folder: Path) -> None:
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=".compile-") as name:
        partial = Path(name)
        for source, text in sources.items():
            (partial / source).write_text(text)
        javac = subprocess.run(
            [
                *(java.find("javac"), "-nowarn", "-proc:none", "-cp", f"{jar_folder}/*"),
                *("-d", str(partial / "classes"), *(str(partial / source) for source in sources)),
            ],
            capture_output=True,
            text=True,
            timeout=300,
        )
        if javac.returncode != 0:
            errors = javac.stderr.replace(f"{partial}/", "").strip().splitlines() or ["nothing"]
            raise LabError(f"the workload does not compile against {jar_folder.name}: {errors[0]}")
        shutil.move(partial / "classes", folder)
