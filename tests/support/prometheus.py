"""A real Prometheus that scrapes a board; Debian has it as the package ``prometheus``."""

import json
import shutil
import subprocess
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support.servers import free_port

DEPLOY = Path(__file__).parents[2] / "deploy"
SECONDS = 120.0
"""How long anything may take on a loaded machine."""


def installed(program: str) -> str:
    """The path of a program of the package; without it the test is skipped and says so."""
    text = shutil.which(program)
    if text is None:
        pytest.skip(f"{program} is not installed: apt-get install prometheus")
    return text


class Prometheus:
    """A running Prometheus."""

    def __init__(self, address: str) -> None:
        self._address = address

    def query(self, expression: str) -> list[dict[str, Any]]:
        """The samples of an expression now.

        Raises:
            AssertionError: Prometheus refuses the expression.
        """
        row = self._get(f"query?{urllib.parse.urlencode({'query': expression})}")
        assert row["status"] == "success", (expression, row)
        return row["data"]["result"]

    def target(self) -> Mapping[str, Any]:
        """The state of its one target."""
        (target,) = self._get("targets")["data"]["activeTargets"]
        return target

    def _get(self, path: str) -> dict[str, Any]:
        try:
            with urllib.request.urlopen(
                f"{self._address}/api/v1/{path}", timeout=SECONDS
            ) as response:
                return json.load(response)
        except urllib.error.HTTPError as error:
            if error.code == 503:  # it is still starting
                raise
            return json.load(error)


@contextmanager
def scraping(target: str, cluster: str, folder: Path) -> Iterator[Prometheus]:
    """Let Prometheus scrape a board of one cluster with the configuration of this repository."""
    program = installed("prometheus")
    config = yaml.safe_load((DEPLOY / "prometheus" / "prometheus.yml").read_text())
    config["global"] = {"scrape_interval": "5s", "evaluation_interval": "5s"}
    names = config["rule_files"]
    config["rule_files"] = [str(DEPLOY / "prometheus" / name) for name in names]
    (static,) = config["scrape_configs"][0]["static_configs"]
    static["targets"], static["labels"]["Cluster"] = [target], cluster
    config["scrape_configs"][0]["scrape_timeout"] = "5s"
    (folder / "prometheus.yml").write_text(yaml.safe_dump(config))
    port = free_port()
    command = [program, f"--config.file={folder / 'prometheus.yml'}"]
    command += [f"--storage.tsdb.path={folder / 'data'}", f"--web.listen-address=127.0.0.1:{port}"]
    with (folder / "log").open("w") as log, subprocess.Popen(command, stderr=log) as process:
        try:
            prometheus = Prometheus(f"http://127.0.0.1:{port}")
            until(
                lambda: prometheus.query('up{job="tidemark"} == 1'), "Prometheus scrapes the board"
            )
            yield prometheus
        finally:
            process.terminate()


def until(is_so: Callable[[], Any], what: str) -> None:
    """Wait until something is so.

    Raises:
        AssertionError: it was not within `SECONDS`.
    """
    deadline = time.monotonic() + SECONDS
    while time.monotonic() < deadline:
        try:
            if is_so():
                return
        except (urllib.error.URLError, ConnectionError, TimeoutError):
            pass
        time.sleep(0.1)
    raise AssertionError(f"not within {SECONDS:.0f} s: {what}")
