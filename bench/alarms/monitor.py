"""Tidemark at work on both clusters: one collector, ticks one after the other."""

import os
import signal
import subprocess
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from bench.soak import TIDEMARK, print_line
from tidemark.embedded import run_services
from tidemark.lab.cluster import LabCluster
from tidemark.lake.catalog import Lake
from tidemark.settings.environment import Settings
from tidemark.settings.home import Home

TICK_SECONDS = 900
OURS = ("TIDEMARK_", "DAGSTER_", "SPARK_")


class Monitor:
    """A home, its engine, and the clusters it collects."""

    def __init__(self, home: Home) -> None:
        """A home; nothing is started."""
        self.home = home
        self.ticks = 0
        self._ended = threading.Event()

    @property
    def lake(self) -> Lake:
        """The tables."""
        return Lake(self.home)

    @contextmanager
    def running(
        self, clusters: Mapping[str, LabCluster], every: float, deep_every: float, pause: float
    ) -> Iterator[None]:
        """Collect at an interval, and compute with a pause between two ticks; at the end, a last.

        Args:
            clusters: by what Tidemark calls them.
            every: seconds between two snapshots.
            deep_every: seconds between two deep snapshots.
            pause: seconds from the end of a tick to the start of the next.

        Raises:
            RuntimeError: a tick failed, or the collector ended.
        """
        self._write_clusters(clusters, every, deep_every)
        failures: list[str] = []
        collector = self._command("collect", "--every", f"{every:g}s")
        ticking = threading.Thread(target=self._tick_on, args=(pause, failures))
        ticking.start()
        try:
            yield
        finally:
            self._ended.set()
            ticking.join()
            was_running = collector.poll() is None
            collector.send_signal(signal.SIGTERM)
            collector.wait(60)
        if not was_running:
            raise RuntimeError(f"the collector ended: see {self.home.path / 'collect.log'}")
        self._tick(failures)
        if failures:
            raise RuntimeError(failures[0])

    def _write_clusters(
        self, clusters: Mapping[str, LabCluster], every: float, deep_every: float
    ) -> None:
        lines = ["clusters:"]
        for name, cluster in clusters.items():
            lines += [f"- name: {name}", f"  namesrv: {cluster.namesrv}"]
            lines += [f"  every: {every:g}s", f"  deep_every: {deep_every:g}s"]
            if cluster.version >= "5":
                lines.append(f"  proxies: [{cluster.proxy.address}]")
        (self.home.path / "clusters.yaml").write_text("\n".join(lines) + "\n")

    def _tick_on(self, pause: float, failures: list[str]) -> None:
        while not self._ended.wait(pause) and not failures:
            self._tick(failures)

    def _tick(self, failures: list[str]) -> None:
        started = time.monotonic()
        code = self._command("tick", "--no-collect").wait(TICK_SECONDS)
        self.ticks += 1
        print_line(f"tick {self.ticks}: {time.monotonic() - started:.1f} s")
        if code:
            failures.append(f"a tick ended with {code}: see {self.home.path / 'tick.log'}")

    def _command(self, name: str, *arguments: str) -> subprocess.Popen[bytes]:
        kept = {key: value for key, value in os.environ.items() if not key.startswith(OURS)}
        with (self.home.path / f"{name}.log").open("ab") as log:
            return subprocess.Popen(
                [str(TIDEMARK), name, *arguments],
                env=kept | {"TIDEMARK_HOME": str(self.home.path)},
                stdout=log,
                stderr=subprocess.STDOUT,
            )


@contextmanager
def monitor(folder: Path) -> Iterator[Monitor]:
    """A home with an engine of its own."""
    folder.mkdir()
    home = Home.of(folder)
    try:
        run_services.up(Settings(home=home))
        yield Monitor(home)
    finally:
        with suppress(OSError):
            run_services.down(home)
