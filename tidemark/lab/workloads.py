"""Java programs of the lab: their compilation, and the workload of clients in every state.

A program is compiled against the jars of a version, once per version and source. The clients of the
workload make brokers report every state of a group; its tasks are in ``workload/``, one class for
each. This module starts and controls it.
"""

import hashlib
import shlex
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from filelock import FileLock

from tidemark.lab import jars
from tidemark.lab.config import OPENS, logback
from tidemark.lab.layout import LabError
from tidemark.model.spelling import did_you_mean

GROUPS = (
    "g-fast",
    "g-two",
    "g-slow",
    "g-filter",
    "g-stuck",
    "g-hung",
    "g-broadcast",
    "g-retry",
    "g-dlq",
    "g-idle",
    "g-inconsistent",
    "g-orderly",
    "g-pull",
    "g-gone",
)
"""Every consumer group that any version can run; ``workload/Groups.java`` describes each."""

WORKLOADS: dict[str, tuple[str, ...]] = {
    "all": GROUPS,
    "steady": ("g-fast", "g-two", "g-slow"),
    "trouble": ("g-fast", "g-stuck", "g-hung", "g-gone", "g-slow"),
    "filters": ("g-fast", "g-filter", "g-inconsistent"),
    "redelivery": ("g-fast", "g-retry", "g-dlq"),
    "pop": ("g-fast", "g-pop", "g-pop-stuck"),
}
"""Named sets of groups; `pop` on 5.x. Producers always write to all topics of the workload."""

TOPICS = ("lab_orders", "lab_ordered", "lab_broadcast", "lab_two", "lab_hung")
"""Every topic the producers write to; ``lab_two`` lies on two brokers, the others on the first."""


def require_known(name: str) -> None:
    """Check the name of a workload.

    Raises:
        LabError: unknown; names those there are.
    """
    if name not in WORKLOADS:
        meant = did_you_mean(name, WORKLOADS)
        raise LabError(f"no workload {name!r}{meant or ':'} known are {', '.join(WORKLOADS)}")


class Workload:
    """A workload's folder, by which its process gets commands and reports results.

    The process writes ``ready`` once it produces. It stops producing while ``pause`` exists, and
    writes ``paused`` with the number of sent messages by topic.
    """

    def __init__(self, folder: Path) -> None:
        """A handle on ``folder``; nothing is read or started."""
        self.folder = folder
        self.log = folder / "output.log"

    def prepare(
        self,
        version: str,
        namesrv: str,
        masters: list[str],
        groups: tuple[str, ...],
        rate: float,
    ) -> list[str]:
        """Compile if needed, remove files of an earlier run, and return the command line.

        Raises:
            LabError: it cannot be compiled, or the rate is not above 0.
        """
        if not rate > 0:
            raise LabError(
                f"a workload needs a rate above 0, not {rate:g}: leave it or give --rate"
            )
        self.folder.mkdir(parents=True, exist_ok=True)
        (self.folder / "logback.xml").write_text(logback(self.folder))
        for name in ("ready", "pause", "paused"):
            (self.folder / name).unlink(missing_ok=True)
        return [
            *java_command(version, self.folder),
            str(self.folder),
            namesrv,
            ",".join(masters),
            ",".join(groups),
            f"{rate:g}",
        ]

    def wait_until_ready(self, alive: Callable[[], bool], seconds: float) -> None:
        """Wait until consumers run and messages flow.

        Raises:
            LabError: it ended, or was not ready in time.
        """
        self._wait(alive, seconds, (self.folder / "ready").exists, "start")

    def pause(self, alive: Callable[[], bool], seconds: float) -> dict[str, int]:
        """Stop producing; messages sent by topic."""
        (self.folder / "pause").touch()
        paused = self.folder / "paused"
        self._wait(alive, seconds, paused.exists, "stop producing")
        words = shlex.split(paused.read_text())
        return {topic: int(count) for topic, _, count in (word.partition("=") for word in words)}

    def go_on(self, alive: Callable[[], bool], seconds: float) -> None:
        """Produce again."""
        (self.folder / "pause").unlink(missing_ok=True)
        self._wait(alive, seconds, lambda: not (self.folder / "paused").exists(), "go on producing")

    def _wait(
        self, alive: Callable[[], bool], seconds: float, done: Callable[[], bool], what: str
    ) -> None:
        deadline = time.monotonic() + seconds
        while not done():
            if not alive():
                raise LabError(f"the workload ended before it could {what}: see {self.log}")
            if time.monotonic() > deadline:
                raise LabError(f"the workload did not {what} within {seconds:g} s: see {self.log}")
            time.sleep(0.05)


_MAIN = "Workload"
_GRPC_MAIN = "GrpcClients"
_SHARED = "shared"
"""The folder of sources that every program has."""
_PLACEHOLDER = "ROCKETMQ_PROTOCOL"


def java_command(version: str, folder: Path, main: str = _MAIN) -> list[str]:
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
        *("-cp", f"{compiled_classes(version)}:{jars.fetch(version)}/*", main),
    ]


def grpc_java_command(version: str, folder: Path) -> list[str]:
    """Return the command line that runs the gRPC clients, without its arguments.

    Args:
        version: RocketMQ version whose mqadmin they use.
        folder: where they keep logs.

    Raises:
        LabError: no JDK, or the sources do not compile.
    """
    client = jars.fetch_grpc_client()
    # The client goes first, because it has its own classes of the protocol.
    path = f"{compiled_classes(version, 'grpc', client)}:{client}/*:{jars.fetch(version)}/*"
    return [
        jars.find("java"),
        *("-Xms64m", "-Xmx192m", "-Xss512k", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"),
        f"-Duser.home={folder}",
        f"-Drmq.logback.configurationFile={folder / 'logback.xml'}",
        *("-cp", path, _GRPC_MAIN),
    ]


def compiled_classes(version: str, program: str = "workload", first: Path | None = None) -> Path:
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
