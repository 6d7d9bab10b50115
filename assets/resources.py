"""The resources that asset bodies name. What they are configured with is ``orchestration``'s."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import dagster as dg
from filelock import FileLock, Timeout
from pydantic import Field, PrivateAttr

from alerting.rule_files import sound_rules
from alerting.rules import Rule
from assets import health_settings, quality_settings
from assets.frames import doubted
from assets.partitions import Context, is_tick, run_window
from expectations.rules import Rule as Expected
from lake import history
from lake.catalog import Lake
from lake.clusters import SettingsError, configured
from lake.home import Home
from lake.looks import NeverReachedError, Read, look_at_all
from lake.retention import raw_since
from rocketmq.rows import Snapshot
from spark.capacity import Machine
from spark.thresholds import ForSome

LOCK_SECONDS = 15 * 60


class LakeResource(dg.ConfigurableResource):
    """The tables, as one run at a time may change them.

    Runs of the daemon and of the command line replace windows of the same tables, so a run holds
    the home's lock from its first step to its last. The operating system frees it when a run is
    killed.
    """

    home: str = Field(description="folder that holds all state, TIDEMARK_HOME")
    _lake: Lake | None = PrivateAttr(default=None)
    _plan: history.Plan | None = PrivateAttr(default=None)
    _doubts: frozenset[str] | None = PrivateAttr(default=None)

    @property
    def lake(self) -> Lake:
        """The tables, opened once."""
        if self._lake is None:
            self._lake = Lake(Home.of(self.home))
        return self._lake

    def plan(self, context: Context) -> history.Plan:
        """What a run works on, looked up once: by its first asset after the raw tables.

        Raises:
            Failure: the run recomputes hours whose raw rows have been removed; it would replace
                what is known of them by nothing.
        """
        if self._plan is None:
            window = run_window(context, self.lake)
            since = raw_since(self.lake.home)
            if since and window.start < since and not is_tick(context):
                raise dg.Failure(
                    f"raw rows before {since:%Y-%m-%dT%H:%MZ} have been removed, and what was "
                    "computed from them stays as it is: recompute from then on",
                    allow_retries=False,
                )
            self._plan = history.plan(self.lake, window)
        return self._plan

    def doubts(self, context: Context) -> frozenset[str]:
        """The raw tables that hold rows unfit to compute on, as this run's checks have found."""
        if self._doubts is None:
            self._doubts = doubted(self.lake, context.run.run_id, self.plan(context))
        return self._doubts

    @contextmanager
    def yield_for_execution(self, context: dg.InitResourceContext) -> Iterator["LakeResource"]:
        """Holds the lock while a run has the resource; sensors and schedules read without it."""
        self._plan = self._doubts = None
        if context.run is None:
            yield self
            return
        home = Home.of(self.home)
        home.path.mkdir(parents=True, exist_ok=True)
        lock = FileLock(home.path / "run.lock")
        try:
            lock.acquire(timeout=LOCK_SECONDS)
        except Timeout as error:
            raise dg.Failure(
                f"another run has held {lock.lock_file} for {LOCK_SECONDS} s; "
                "wait for it or terminate it in the Dagster UI"
            ) from error
        try:
            yield self
        finally:
            lock.release()


class CollectorResource(dg.ConfigurableResource):
    """The clusters to look at. Where their secrets are is known here, and not what they are."""

    namesrv: str = Field(default="", description="name servers, host:port separated by ';'")
    cluster: str = Field(default="", description="which cluster, or what to call it")
    clusters: str = Field(default="", description="settings file, TIDEMARK_CLUSTERS")

    def collect(self, home: Home, watched: Sequence[str], read: Read) -> list[Snapshot]:
        """Takes one snapshot of every cluster at the same time.

        Args:
            home: where the clusters and what is remembered of them are.
            watched: groups that a deep look asks in any case.
            read: who reads a cluster.

        Raises:
            Failure: when no cluster is configured, the settings are wrong, or the only one was
                never reached under its address: then even its name is not known, and there is
                nothing to write down.
        """
        try:
            clusters = configured(home, self.namesrv, self.cluster, self.clusters)
            if clusters:
                return look_at_all(home, clusters, watched, read)
        except (SettingsError, NeverReachedError) as error:
            raise dg.Failure(str(error)) from error
        raise dg.Failure(
            "no cluster to look at: set TIDEMARK_NAMESRV to the name server's HOST:PORT, or write "
            f"{home.path / 'clusters.yaml'}"
        )


class RulesResource(dg.ConfigurableResource):
    """The alert rules."""

    path: str = Field(description="a YAML file or a folder of them")

    def rules(self) -> tuple[list[Rule], list[str]]:
        """The rules as they stand in the files now, and a line for each that cannot be used."""
        return sound_rules(Path(self.path))


class HealthResource(dg.ConfigurableResource):
    """What makes a state of health, where it is not the same for all groups."""

    path: str = Field(description="settings file, TIDEMARK_HEALTH")

    def thresholds(self) -> tuple[Sequence[ForSome], list[str]]:
        """Those of single groups as they stand in the file now, and a line for each mistake."""
        return health_settings.read(Path(self.path))


class QualityResource(dg.ConfigurableResource):
    """What the rules on tables tolerate, where it is not nothing."""

    path: str = Field(description="settings file, TIDEMARK_QUALITY")

    def suites(
        self, context: Context, of: Mapping[str, tuple[Expected, ...]]
    ) -> Mapping[str, tuple[Expected, ...]]:
        """Rules of tables as the file says now; a line in the log for each mistake."""
        found, mistakes = quality_settings.read(Path(self.path))
        for mistake in mistakes:
            context.log.error(f"left out: {mistake}")
        return quality_settings.suites(found, of)


class ClientMachineResource(dg.ConfigurableResource):
    """What consumers run on, as far as somebody has said so; no client tells it."""

    cores: str = Field(default="", description="cores a client may use, TIDEMARK_CLIENT_CORES")
    compute_ms: str = Field(
        default="",
        description="milliseconds of a listener call that compute, TIDEMARK_CLIENT_COMPUTE_MS",
    )

    def machine(self) -> Machine | None:
        """The machine; None unless both are set.

        Raises:
            Failure: one of them is no number above 0.
        """
        cores, compute_ms = (
            _above_zero("TIDEMARK_CLIENT_CORES", self.cores),
            _above_zero("TIDEMARK_CLIENT_COMPUTE_MS", self.compute_ms),
        )
        return Machine(cores, compute_ms) if cores and compute_ms else None


def _above_zero(name: str, text: str) -> float | None:
    try:
        found = float(text) if text else None
    except ValueError:
        found = 0.0
    if found is not None and not 0 < found < float("inf"):
        raise dg.Failure(f"{name}={text}: a number above 0 is wanted")
    return found
