"""Java, and the jars of a RocketMQ version, fetched once and cached for this user.

They are resolved by the Ivy that ships inside pyspark, so neither Maven nor a download page is
needed. Behind a proxy or a mirror, name an Ivy settings file in ``TIDEMARK_IVY_SETTINGS``.
"""

import functools
import importlib.util
import logging
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

from filelock import FileLock

from tidemark.host.processes import java_tool, java_version
from tidemark.lab.layout import LabError
from tidemark.model.spelling import did_you_mean

OLDEST = 17
INSTALL = f"install a JDK {OLDEST} or newer, e.g.: sudo apt install openjdk-{OLDEST}-jdk-headless"


@functools.cache
def find(tool: str) -> str:
    """Return the path of a JDK tool (``java``, ``javac``), from ``JAVA_HOME``, else ``PATH``.

    Raises:
        LabError: there is none, or it is older than Java 17.
    """
    path = java_tool(tool)
    if path is None:
        home = os.environ.get("JAVA_HOME")
        where = f"in JAVA_HOME={home}" if home else "on PATH"
        raise LabError(f"no {tool} {where}: {INSTALL}")
    version = java_version(path)
    if version is None or version < OLDEST:
        shown = f"Java {version}" if version else "no version"
        raise LabError(f"{path} is too old ({shown}): {INSTALL}")
    return path


COMPANIONS = {"5.5.1": "5.5.0"}
"""The version of all other nodes, by version of which Maven Central has only the broker.

Of 5.5.1 it has broker, common, controller, remoting, store and tiered-store.
"""

VERSIONS = ("5.3.3", "5.5.0", "4.9.7", "5.4.0", *COMPANIONS)
"""Versions whose brokers are on Maven Central with all that they need."""

PROXY = "proxy"
"""A version's jars with those of its Proxy, which came with 5.0, are called ``<version>-proxy``."""

GRPC_CLIENT = "grpc-client-5.2.0"
"""The jar of the Java client for a Proxy; it has version numbers of its own."""

_BROKER = "rocketmq-broker"
_SERVERS = ("rocketmq-namesrv", _BROKER, "rocketmq-tools", "rocketmq-client")
_OF_COMPANION = "rocketmq-(acl|auth|client|filter|srvutil)"
"""Jars that a broker needs and its own version lacks, as a regular expression."""

_DOWNLOAD_SECONDS = 900

_log = logging.getLogger(__name__)


def cache_folder() -> Path:
    """Return where downloads and compiled classes are kept, outside any project folder."""
    root = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(root) / "tidemark"


def fetch(version: str, report: Callable[[str], None] = _log.info) -> Path:
    """Return the folder with the jars of a version's name server, broker, client and tools.

    A version in `COMPANIONS` uses the jars of its companion. Jars that are not cached are
    downloaded. Several processes may call this at once: one downloads, the others wait, and the
    folder appears complete by one rename.

    Args:
        version: one of `VERSIONS`.
        report: called with one line before a download starts, which takes 20 s to 2 minutes.

    Raises:
        LabError: unknown version, no Java, or the download failed.
    """
    _require_known(version)
    version = COMPANIONS.get(version, version)
    return _fetched(version, _SERVERS, version, report)


def fetch_broker(version: str, report: Callable[[str], None] = _log.info) -> Path:
    """Return the folder with the jars of a version's broker.

    Raises:
        LabError: unknown version, no Java, or the download failed.
    """
    _require_known(version)
    if version not in COMPANIONS:
        return fetch(version, report)
    return _fetched(f"{version}-broker", (_BROKER,), version, report, COMPANIONS[version])


def fetch_proxy(version: str, report: Callable[[str], None] = _log.info) -> Path:
    """Return the folder with the jars of a version's Proxy, which can include a broker of `fetch`.

    Raises:
        LabError: a version without a Proxy, no Java, or the download failed.
    """
    if version not in VERSIONS or version < "5":
        known = ", ".join(text for text in VERSIONS if text >= "5")
        raise LabError(f"RocketMQ {version} has no Proxy: known are {known}")
    version = COMPANIONS.get(version, version)
    return _fetched(f"{version}-{PROXY}", (*_SERVERS, "rocketmq-proxy"), version, report)


def fetch_grpc_client(report: Callable[[str], None] = _log.info) -> Path:
    """Return the folder with the Java client for a Proxy.

    Raises:
        LabError: no Java, or the download failed.
    """
    version = GRPC_CLIENT.rpartition("-")[2]
    return _fetched(GRPC_CLIENT, ("rocketmq-client-java",), version, report)


def _require_known(version: str) -> None:
    if version not in VERSIONS:
        meant = did_you_mean(version, VERSIONS)
        known = ", ".join(VERSIONS)
        raise LabError(f"the lab cannot run RocketMQ {version}{meant or ':'} known are {known}")


def _fetched(
    name: str,
    modules: Sequence[str],
    version: str,
    report: Callable[[str], None],
    companion: str | None = None,
) -> Path:
    folder = cache_folder() / "jars" / name
    if folder.is_dir():
        return folder
    folder.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(cache_folder() / "ivy.lock"):
        if not folder.is_dir():
            report(f"downloading RocketMQ {name} (30-100 MB, once) to {folder}")
            _download(_wanted(modules, version, companion), folder)
    return folder


def _download(module: str, folder: Path) -> None:
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=f".{folder.name}-") as name:
        partial = Path(name)
        wanted = partial / "ivy.xml"
        wanted.write_text(module)
        log = cache_folder() / f"ivy-{folder.name}.log"
        with log.open("w") as output:
            command = ivy_command(wanted, partial / "jars")
            try:
                code = subprocess.run(
                    command, stdout=output, stderr=subprocess.STDOUT, timeout=_DOWNLOAD_SECONDS
                ).returncode
            except subprocess.TimeoutExpired:
                code = None
        if code != 0:
            reason = "timed out" if code is None else _reason(log.read_text(errors="replace"))
            raise LabError(
                f"cannot download RocketMQ {folder.name} from Maven Central ({reason}): "
                f"check the network, see {log}"
            )
        shutil.move(partial / "jars", folder)


def _wanted(modules: Sequence[str], version: str, companion: str | None) -> str:
    """Return an ``ivy.xml``; dependencies that the version lacks are of its companion."""
    dependencies = "".join(
        f'<dependency org="org.apache.rocketmq" name="{module}" rev="{version}"'
        ' conf="default->default"/>'
        for module in modules
    )
    if companion:
        dependencies += (
            f'<override org="org.apache.rocketmq" module="{_OF_COMPANION}" matcher="regexp"'
            f' rev="{companion}"/>'
        )
    return (
        '<ivy-module version="2.0"><info organisation="tidemark" module="lab"/>'
        '<configurations><conf name="default"/></configurations>'
        f"<dependencies>{dependencies}</dependencies></ivy-module>"
    )


def ivy_command(wanted: Path, jars: Path) -> list[str]:
    """Return the command that puts the jars of an ``ivy.xml`` into a folder."""
    settings = os.environ.get("TIDEMARK_IVY_SETTINGS")
    return [
        find("java"),
        "-Xmx256m",
        "-Dsun.net.client.defaultConnectTimeout=10000",
        "-Dsun.net.client.defaultReadTimeout=60000",
        *("-cp", str(_ivy_jar()), "org.apache.ivy.Main"),
        *(("-settings", settings) if settings else ()),
        *("-ivy", str(wanted), "-cache", str(cache_folder() / "ivy"), "-confs", "default"),
        *("-retrieve", str(jars / "[artifact]-[revision](-[classifier]).[ext]")),
        *("-types", "jar", "bundle"),
    ]


def _ivy_jar() -> Path:
    spec = importlib.util.find_spec("pyspark")
    for location in (spec.submodule_search_locations or ()) if spec else ():
        for jar in Path(location).glob("jars/ivy-*.jar"):
            return jar
    raise LabError("no Ivy found: it ships inside pyspark, install the project with: make setup")


def _reason(log: str) -> str:
    """Return the line of an Ivy log with why it failed."""
    for sign in (
        "UnknownHost",
        "timed out",
        "refused",
        "PKIX",
        "UNRESOLVED",
        "FAILED",
        "Exception",
    ):
        for line in log.splitlines():
            if sign in line:
                return " ".join(line.replace("::", " ").split())[:160]
    return "Ivy gave no reason"
