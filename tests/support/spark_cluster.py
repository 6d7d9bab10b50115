"""A Spark cluster on loopback: a standalone master, workers, and a Connect server with a token.

Master, workers and server share no folder: each has one of its own, and jars travel from the
server to the executors. ``SPARK_HOME`` is the folder of the pyspark package.
"""

import json
import os
import subprocess
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyspark

from tests.support.servers import free_port, listens, until

SPARK = Path(pyspark.__file__).parent
MEMORY = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m"

EXECUTORS = {
    "spark.cores.max": "2",
    "spark.executor.cores": "1",
    "spark.executor.memory": "700m",
    "spark.executor.extraJavaOptions": MEMORY,
}


@dataclass(frozen=True)
class Standalone:
    """A standalone cluster.

    Attributes:
        master: its address.
        ui: address of the master's page, which has the state as JSON.
        folder: with a work folder for each worker.
    """

    master: str
    ui: str
    folder: Path

    def state(self) -> dict[str, Any]:
        """Return the report of the master."""
        with urllib.request.urlopen(f"{self.ui}/json/", timeout=10) as response:
            return json.load(response)

    def tasks(self, application: str) -> dict[str, int]:
        """How many tasks the executors of an application ended, by worker."""
        state = self.state()
        known = [*state["activeapps"], *state["completedapps"]]
        ids = [app["id"] for app in known if app["name"] == application]
        return {
            worker.name: sum(
                log.read_text(errors="replace").count("Finished task")
                for item in ids
                for log in worker.glob(f"{item}/*/stderr")
            )
            for worker in sorted(self.folder.glob("worker-*"))
        }


def executor_settings(folder: Path) -> Path:
    """A folder for ``SPARK_CONF_DIR``: small executors, one on each of two workers."""
    folder.mkdir(parents=True)
    (folder / "spark-defaults.conf").write_text(
        "".join(f"{name} {value}\n" for name, value in EXECUTORS.items())
    )
    return folder


@contextmanager
def standalone(
    folder: Path, credentials: Mapping[str, str], workers: int = 2
) -> Iterator[Standalone]:
    """A master and workers of two slots each, whose executors get the credentials."""
    port, ui = free_port(), free_port()
    address = f"spark://127.0.0.1:{port}"
    cluster = Standalone(address, f"http://127.0.0.1:{ui}", folder)
    common = ("--host", "127.0.0.1", "--webui-port")
    with ExitStack() as stack:
        folder.mkdir(parents=True)
        master = ("org.apache.spark.deploy.master.Master", "--port", str(port), *common, str(ui))
        process = stack.enter_context(_daemon(folder / "master", master, {}))
        until(lambda: cluster.state()["status"] == "ALIVE", process, folder / "master" / "log")
        for number in range(workers):
            place = folder / f"worker-{number}"
            worker = ("org.apache.spark.deploy.worker.Worker", *common, str(free_port()))
            worker += ("--cores", "2", "--memory", "2g", "--work-dir", str(place), address)
            process = stack.enter_context(_daemon(place, worker, credentials))
        until(lambda: cluster.state()["aliveworkers"] == workers, process, place / "log")
        yield cluster


@contextmanager
def _daemon(
    folder: Path, arguments: tuple[str, ...], environment: Mapping[str, str]
) -> Iterator[subprocess.Popen[bytes]]:
    folder.mkdir()
    settings = {
        "SPARK_HOME": str(SPARK),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_DAEMON_MEMORY": "256m",
        "SPARK_DAEMON_JAVA_OPTS": f"-Dspark.master.rest.enabled=false {MEMORY}",
        "SPARK_LOCAL_DIRS": str(folder / "local"),
    }
    with _process(folder, ("spark-class", *arguments), settings | dict(environment)) as process:
        yield process


@contextmanager
def _process(
    folder: Path, command: tuple[str, ...], environment: Mapping[str, str]
) -> Iterator[subprocess.Popen[bytes]]:
    kept = {key: value for key, value in os.environ.items() if not key.startswith("SPARK_")}
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            [str(SPARK / "bin" / command[0]), *command[1:]],
            stdout=log,
            stderr=log,
            cwd=folder,
            env=kept | dict(environment),
        )
    try:
        yield process
    finally:
        process.terminate()
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


@contextmanager
def connect_server(
    folder: Path,
    properties: Mapping[str, str],
    environment: Mapping[str, str],
    token: str,
    port: int = 0,
) -> Iterator[str]:
    """A Connect server that lets in who has the token; yields its address."""
    port = port or free_port()
    folder.mkdir(parents=True)
    settings = dict(properties) | {
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.connect.grpc.binding.port": str(port),
        "spark.app.name": "connect",
        **EXECUTORS,
    }
    file = folder / "spark.conf"
    file.write_text("".join(f"{name} {value}\n" for name, value in settings.items()))
    command = ("spark-submit", "--properties-file", str(file), "--class")
    command += ("org.apache.spark.sql.connect.service.SparkConnectServer", "spark-internal")
    needed = {"SPARK_CONNECT_AUTHENTICATE_TOKEN": token, "SPARK_LOCAL_IP": "127.0.0.1"}
    with _process(folder, command, needed | dict(environment)) as process:
        until(lambda: listens(port), process, folder / "log")
        yield f"sc://localhost:{port}"
