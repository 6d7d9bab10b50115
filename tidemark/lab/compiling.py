"""Compiling the lab's Java programs against the jars of a version, once per version and source."""

import hashlib
import shutil
import subprocess
import tempfile
from pathlib import Path

from filelock import FileLock

from tidemark.lab import jars
from tidemark.lab.config import OPENS
from tidemark.lab.layout import LabError

_MAIN = "Workload"
_GRPC_MAIN = "GrpcClients"
_SHARED = "shared"
"""The folder of sources that every program has."""
_PLACEHOLDER = "ROCKETMQ_PROTOCOL"


def command(version: str, folder: Path, main: str = _MAIN) -> list[str]:
    """Return the command line that runs the workload, without its arguments.

    Args:
        version: RocketMQ version whose client it uses.
        folder: where it keeps logs and the offset files of broadcasting consumers.
        main: which of its programs.

    Raises:
        LabError: no JDK, or the sources do not compile.
    """
    return [
        jars.find("java"),
        *("-Xms64m", "-Xmx192m", "-Xss512k", "-XX:+UseSerialGC", *OPENS),
        f"-Duser.home={folder}",
        f"-Drocketmq.client.logRoot={folder / 'logs'}",
        # 4.9 reads the first of these, 5.x the second.
        f"-Dlogback.configurationFile={folder / 'logback.xml'}",
        f"-Drmq.logback.configurationFile={folder / 'logback.xml'}",
        f"-Drocketmq.client.localOffsetStoreDir={folder / 'broadcast-offsets'}",
        *("-cp", f"{classes(version)}:{jars.fetch(version)}/*", main),
    ]


def grpc_command(version: str, folder: Path) -> list[str]:
    """Return the command line that runs the gRPC clients, without its arguments.

    Args:
        version: RocketMQ version whose mqadmin they use.
        folder: where they keep logs.

    Raises:
        LabError: no JDK, or the sources do not compile.
    """
    client = jars.fetch_grpc_client()
    # The client goes first, because it has its own classes of the protocol.
    path = f"{classes(version, 'grpc', client)}:{client}/*:{jars.fetch(version)}/*"
    return [
        jars.find("java"),
        *("-Xms64m", "-Xmx192m", "-Xss512k", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"),
        f"-Duser.home={folder}",
        f"-Drmq.logback.configurationFile={folder / 'logback.xml'}",
        *("-cp", path, _GRPC_MAIN),
    ]


def classes(version: str, program: str = "workload", first: Path | None = None) -> Path:
    """Return the folder of a compiled program, which is compiled unless these sources were.

    Args:
        version: RocketMQ version.
        program: the folder of its sources next to this module.
        first: a folder of jars that go before RocketMQ's own.

    Raises:
        LabError: no JDK, or the sources do not compile.
    """
    folders = [Path(__file__).parent / name for name in (program, _SHARED)]
    paths = sorted(path for folder in folders for path in folder.glob("*.java"))
    sources = {path.name: _source(path, version) for path in paths}
    digest = hashlib.sha256("\0".join(sources.values()).encode()).hexdigest()[:12]
    folder = jars.cache_folder() / program / f"{version}-{digest}"
    if not folder.is_dir():
        folder.parent.mkdir(parents=True, exist_ok=True)
        with FileLock(folder.parent / ".lock"):
            if not folder.is_dir():
                path = ":".join(f"{path}/*" for path in (first, jars.fetch(version)) if path)
                _compile(sources, path, folder)
    return folder


def _source(path: Path, version: str) -> str:
    """Return a source with the name of a package that 5.0 moved, for its version."""
    package = "org.apache.rocketmq.common" if version < "5" else "org.apache.rocketmq.remoting"
    return path.read_text().replace(_PLACEHOLDER, f"{package}.protocol")


def _compile(sources: dict[str, str], class_path: str, folder: Path) -> None:
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=".compile-") as name:
        partial = Path(name)
        for source, text in sources.items():
            (partial / source).write_text(text)
        javac = subprocess.run(
            [
                *(jars.find("javac"), "-nowarn", "-proc:none", "-cp", class_path),
                *("-d", str(partial / "classes"), *(str(partial / source) for source in sources)),
            ],
            capture_output=True,
            text=True,
            timeout=300,
        )
        if javac.returncode != 0:
            errors = javac.stderr.replace(f"{partial}/", "").strip().splitlines() or ["nothing"]
            name = folder.parent.name
            raise LabError(f"the {name} program does not compile for {folder.name}: {errors[0]}")
        shutil.move(partial / "classes", folder)
