"""Dagster resources of the assets: tables, clusters, rules. `orchestration` configures them."""

import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path

import dagster as dg
from pydantic import Field, PrivateAttr

from assets.dagster_names import LONGEST_TAG, OF_TIDEMARK, longest_time_tag, process_tags
from assets.diagnoses import diagnose_incidents
from assets.partitions import TABLES_POOL
from expectations import brought_suites, tolerances
from expectations.audit_suites import AUDIT_EXPECTATIONS
from expectations.brought_suites import Brought
from expectations.declarations import Expectation
from tidemark.alerting.rules.files import RuleSet, read_rule_set, valid_rules, with_links
from tidemark.alerting.rules.model import Rule
from tidemark.collection.snapshots import NeverReachedError, take_snapshots
from tidemark.host.failures import errors_only, one_line
from tidemark.host.leases import RUN, HeldError, Lease, LeaseError
from tidemark.lake.catalog import Lake
from tidemark.lake.catalog_config import CatalogConfig
from tidemark.lake.recovery import recover
from tidemark.lake.upgrading import upgrade
from tidemark.rocketmq.records import Snapshot
from tidemark.settings import health, objectives, owners
from tidemark.settings.basics import SettingsError
from tidemark.settings.clusters import configured
from tidemark.settings.health import Override
from tidemark.settings.home import Home
from tidemark.settings.objectives import Objective
from tidemark.settings.owners import Machine, MachineOverride, Owners, Sizing, read_machines
from tidemark.settings.sections import DEFAULT_HISTORY, RUN_MINUTES, HistorySettings

GRACE_SECONDS = 20.0
"""Longest time for an interrupted run to end. It may wait for a response that never comes, as of
an engine that hangs. A kill loses nothing."""

FREES_SECONDS = 1.0
"""Seconds between two times that a waiting run frees its slots."""

_WAITS = "tidemark_waits"
"""Key of a step that no run has."""


class LakeResource(dg.ConfigurableResource):
    """The tables, which one run at a time may change.

    Runs of the daemon and of the command line replace windows of the same tables, so a run holds
    the lease of runs from its first step that loads or computes to its last. Collecting needs no
    lease of a run. It ends when the run is killed.
    """

    home: str = Field(description="folder that holds all state, TIDEMARK_HOME")
    run_minutes: int = Field(
        default=RUN_MINUTES, description="longest time of a run, TIDEMARK_RUN_MINUTES"
    )
    history_settings: dg.ResourceDependency[HistorySettings] = DEFAULT_HISTORY  # pyright: ignore
    catalog: dg.ResourceDependency[CatalogConfig | None] = None  # pyright: ignore
    _lake: Lake | None = PrivateAttr(default=None)
    _lease: Lease | None = PrivateAttr(default=None)
    _of_run: tuple[dg.DagsterInstance, str] | None = PrivateAttr(default=None)
    _freed_at: float = PrivateAttr(default=-FREES_SECONDS)

    @property
    def lake(self) -> Lake:
        """The tables, opened once."""
        if self._lake is None:
            self._lake = Lake(Home.of(self.home), self.catalog)
        return self._lake

    def alone(self, waiting: Callable[[str], None] = lambda _: None) -> None:
        """Wait until no other run changes the tables, and keep others waiting until the run's end.

        Called again it makes sure that this run still is the only one.

        Args:
            waiting: receives a line that names the process it waits for, where it waits.

        Raises:
            Failure: another run did not end in the longest time that a run may take.
            LeaseError: leases cannot be had, or this run lost its own.
        """
        if self._lease:
            self._lease.confirm()
            return
        leases, longest = self.lake.shared.leases, 60 * self.run_minutes
        try:
            self._lease = leases.acquire(
                RUN, longest, partial(_report_holder, waiting), self._free_slots
            )
        except HeldError as error:
            raise dg.Failure(
                f"{error} for {self.run_minutes} minutes; wait for it or terminate it in the "
                "Dagster UI",
                allow_retries=False,
            ) from error
        self.lake.held = self._lease

    def _free_slots(self) -> None:
        """Keep no slot that the next step of the run with the lease may need."""
        if self._of_run and time.monotonic() - self._freed_at >= FREES_SECONDS:
            free_slots(*self._of_run)
            self._freed_at = time.monotonic()

    @contextmanager
    def yield_for_execution(self, context: dg.InitResourceContext) -> Iterator["LakeResource"]:
        """Tag the run that has the resource, and release its lease when it ends."""
        with ExitStack() as of_run:
            if context.run and context.instance:
                run_id, tags = context.run.run_id, context.run.tags
                longest = {**longest_time_tag(tags, timedelta(minutes=self.run_minutes)), **tags}
                # Where each step has a process of its own, none of them is that of the run.
                of_process = {} if _has_workers(context.instance, run_id) else process_tags(run_id)
                context.instance.add_run_tags(run_id, {**longest, **OF_TIDEMARK, **of_process})
                of_run.enter_context(ended_after(float(longest[LONGEST_TAG])))
                # Dagster warns of each step behind a check without a result, as of an empty table,
                # which is no fault, and gives these lines no level of their own.
                of_run.enter_context(errors_only("dagster._core.execution.plan.active"))
                report = context.log.info if context.log else lambda _: None
                recover(self.lake, context.log.warning if context.log else report)
                self._of_run = context.instance, run_id
                upgrade(self.lake, report, partial(_report_holder, report), self._free_slots)
            try:
                yield self
            finally:
                self._give_back()

    def _give_back(self) -> None:
        if self._lease:
            try:
                self.lake.sync()
                self._lease.release()
            finally:
                # A lease that was not released makes the next run recover the tables.
                self._lease.let_go()
                self._lease = self.lake.held = None


def _report_holder(report: Callable[[str], None], holder: str) -> None:
    report(f"waiting for the run of {holder}, which changes the tables")


def free_slots(instance: dg.DagsterInstance, run_id: str) -> None:
    """Free the slots that steps of a run have in the pool of steps that change tables.

    With the granularity ``op`` a run gives its slot back after each step and keeps the lease of
    runs. A step of another run that waited for the lease in that slot would let neither continue.
    The lease alone lets one run after the other change the tables.

    Args:
        instance: of Dagster.
        run_id: of the run that waits.
    """
    storage = instance.event_log_storage
    if not storage.supports_global_concurrency_limits:
        return
    pool = storage.get_concurrency_info(TABLES_POOL)
    for slot in pool.claimed_slots:
        if slot.run_id == run_id:
            storage.free_concurrency_slot_for_step(run_id, slot.step_key)
    if pool.pending_step_count:
        # Dagster assigns no slot to a step that began to wait while one was freed, until the next
        # is: a claim that is given back is the next.
        storage.claim_concurrency_slot(TABLES_POOL, run_id, _WAITS)
        storage.free_concurrency_slot_for_step(run_id, _WAITS)


def _has_workers(instance: dg.DagsterInstance, run_id: str) -> bool:
    """Return whether an executor starts a process for each step of a run."""
    of_type = dg.DagsterEventType.STEP_WORKER_STARTING
    return bool(instance.get_records_for_run(run_id, of_type=of_type, limit=1).records)


class CollectorResource(dg.ConfigurableResource):
    """The clusters to collect, with the places of their secrets but not the secrets."""

    namesrv: str = Field(default="", description="name servers, host:port separated by ';'")
    cluster: str = Field(default="", description="which cluster, or what to call it")
    clusters: str = Field(default="", description="settings file, TIDEMARK_CLUSTERS")
    incident_stacks: bool = Field(default=True, description="TIDEMARK_INCIDENT_STACKS")

    def diagnose(self, lake: Lake, report: Callable[[str], None] = lambda _: None) -> int:
        """Keep what members of groups do with incidents that have just begun to fire.

        Args:
            lake: the tables.
            report: receives a line for each incident without a diagnosis, and why.

        Returns:
            How many incidents got a diagnosis.
        """
        if not self.incident_stacks:
            return 0
        try:
            clusters = configured(lake.home, self.namesrv, self.cluster, self.clusters)
            return diagnose_incidents(lake, clusters, datetime.now(UTC), report)
        except (SettingsError, LeaseError) as error:
            report(f"no incident is diagnosed: {one_line(error)}")
            return 0

    def collect(
        self,
        lake: Lake,
        priority_groups: Sequence[str],
        report: Callable[[str], None] = lambda _: None,
        since: datetime | None = None,
    ) -> list[Snapshot]:
        """Take one snapshot of every cluster at the same time.

        Args:
            lake: whose home names the clusters, and whose state remembers them.
            priority_groups: groups whose clients a deep snapshot always requests.
            report: receives a line for each cluster that another process collects.
            since: when the run was created; a cluster that was collected since and a moment ago
                gets no second snapshot.

        Raises:
            Failure: when no cluster is configured, the settings are wrong, or the only one was
                never reached under its address: then even its name is not known, and there is
                nothing to write down.
        """
        try:
            clusters = configured(lake.home, self.namesrv, self.cluster, self.clusters)
            if clusters:
                return take_snapshots(
                    lake.shared, clusters, priority_groups, report=report, since=since
                )
        except (SettingsError, NeverReachedError) as error:
            raise dg.Failure(str(error), allow_retries=False) from error
        raise dg.Failure(
            "no cluster to collect: set TIDEMARK_NAMESRV to the name server's HOST:PORT, or write "
            f"{lake.home.path / 'clusters.yaml'}",
            allow_retries=False,
        )


class RulesResource(dg.ConfigurableResource):
    """The alert rules."""

    path: str = Field(description="a YAML file or a folder of them")
    docs_url: str = Field(default="", description="address of the documentation site")
    owners_path: str = Field(default="", description="settings file, TIDEMARK_OWNERS")

    def owners(self) -> tuple[Owners, list[str]]:
        """Return the teams of groups, and a line for each mistake; with one, no group has a team.

        A part of the entries would give a group to the team of a later entry.
        """
        if not self.owners_path:
            return Owners(), []
        entries, mistakes = owners.read(Path(self.owners_path))
        return Owners(() if mistakes else entries), mistakes

    def rules(self) -> tuple[list[Rule], list[str]]:
        """Return the rules that the files now contain, and a line for each mistake in them."""
        rules, mistakes = valid_rules(Path(self.path))
        return with_links(rules, self.docs_url), mistakes

    def rule_set(self) -> RuleSet:
        """Everything that the files declare now: rules, inhibitions and routes."""
        rule_set = read_rule_set(Path(self.path))
        return replace(rule_set, rules=with_links(rule_set.rules, self.docs_url))


class HealthResource(dg.ConfigurableResource):
    """Overrides of health thresholds for single groups, from a settings file."""

    path: str = Field(description="settings file, TIDEMARK_HEALTH")
    required: bool = Field(default=False, description="whether the file has to exist")

    def thresholds(self) -> tuple[Sequence[Override], list[str]]:
        """Return the overrides that the file now contains, and a line for each mistake in it."""
        return health.read(Path(self.path), required=self.required)


class QualityResource(dg.ConfigurableResource):
    """Tolerance and severity of expectations where configured, and suites that people bring."""

    path: str = Field(description="settings file, TIDEMARK_QUALITY")
    required: bool = Field(default=False, description="whether the file has to exist")
    folder: str = Field(default="", description="folder of suites, TIDEMARK_EXPECTATIONS")
    folder_required: bool = Field(default=False, description="whether the folder has to exist")

    def suites(
        self,
        context: dg.AssetCheckExecutionContext,
        declared: Mapping[str, tuple[Expectation, ...]],
    ) -> Mapping[str, tuple[Expectation, ...]]:
        """Return the expectations of tables as configured now; log a line for each mistake."""
        entries, mistakes = tolerances.read(Path(self.path), required=self.required)
        for mistake in mistakes:
            context.log.error(f"left out: {mistake}")
        return tolerances.suites(entries, declared)

    def brought(self, context: dg.AssetCheckExecutionContext) -> tuple[Brought, list[str]]:
        """Return the suites of the folder now, and their mistakes; log a line for each of these."""
        if not self.folder:
            return {}, []
        brought_expectations, mistakes = brought_suites.read(
            Path(self.folder), required=self.folder_required
        )
        for mistake in mistakes:
            context.log.error(f"left out: {mistake}")
        return brought_expectations, mistakes

    def declared(self, named: Iterable[tuple[str, str]]) -> set[tuple[str, str]]:
        """Return the declared ones of these pairs of a table's and an expectation's name.

        The folder is read only for expectations that are not built in. While it has a mistake,
        every expectation counts as declared.
        """
        wanted = set(named)
        built_in = {
            (table, expectation.name)
            for table, suite in AUDIT_EXPECTATIONS.items()
            for expectation in suite
        }
        if not self.folder or wanted <= built_in:
            return wanted & built_in
        brought_expectations, mistakes = brought_suites.read(
            Path(self.folder), required=self.folder_required
        )
        if mistakes:
            return wanted
        brought = {
            (table, brought_expectation.name)
            for table, suite in brought_expectations.items()
            for brought_expectation in suite
        }
        return wanted & (built_in | brought)


class ClientMachineResource(dg.ConfigurableResource):
    """Configured machines of consumers, which no client reports."""

    cores: float | None = Field(default=None, description="TIDEMARK_CLIENT_CORES")
    compute_ms: float | None = Field(default=None, description="TIDEMARK_CLIENT_COMPUTE_MS")
    use_percent: int = Field(default=80, description="TIDEMARK_CLIENT_USE_PERCENT")
    fewest_messages: int = Field(default=30, description="TIDEMARK_CLIENT_MESSAGES")
    path: str = Field(default="", description="settings file, TIDEMARK_CAPACITY")
    required: bool = Field(default=False, description="whether the file has to exist")

    def machine(self) -> Machine:
        """Return the machine of groups that the file does not name."""
        return Machine(self.cores, self.compute_ms)

    def sizing(self) -> Sizing:
        """Return how members are counted."""
        return Sizing(most_used=self.use_percent / 100, fewest_messages=self.fewest_messages)

    def overrides(self) -> tuple[Sequence[MachineOverride], list[str]]:
        """Return the machines of single groups that the file now contains, and its mistakes."""
        return read_machines(Path(self.path), required=self.required)


class ObjectivesResource(dg.ConfigurableResource):
    """Objectives of groups, from a settings file."""

    path: str = Field(description="settings file, TIDEMARK_OBJECTIVES")
    required: bool = Field(default=False, description="whether the file has to exist")

    def declared(self) -> tuple[Sequence[Objective], list[str]]:
        """Return the objectives that the file now contains, and a line for each mistake in it."""
        return objectives.read(Path(self.path), required=self.required)


@contextmanager
def ended_after(seconds: float, grace: float = GRACE_SECONDS) -> Iterator[None]:
    """End this process if the context lasts longer than its time, with the reason printed.

    Dagster's daemon ends such runs too, and so does every command that starts a run. A command line
    may have no daemon, and the next command may run much later; until then no other run could
    change the tables. The process is first interrupted as by Ctrl-C, then killed, which frees its
    lease.

    Args:
        seconds: the longest time.
        grace: seconds from the interrupt to the end by force.
    """
    over = threading.Event()

    def watch() -> None:
        if over.wait(seconds):
            return
        _say(f"the run has taken longer than {seconds:g} s (TIDEMARK_RUN_MINUTES): it ends now")
        os.kill(os.getpid(), signal.SIGINT)
        # The system ends the process if this thread does not get its turn either.
        signal.setitimer(signal.ITIMER_REAL, 2 * grace)
        if not over.wait(grace):
            _say(f"it did not end within {grace:g} s and is killed; the next run does its work")
            os.kill(os.getpid(), signal.SIGKILL)
        signal.setitimer(signal.ITIMER_REAL, 0)

    thread = threading.Thread(target=watch, name="longest-time", daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join(grace)


def _say(line: str) -> None:
    # Not print: the thread that is stuck may hold the lock of the stream.
    os.write(sys.__stderr__.fileno() if sys.__stderr__ else 2, f"tidemark: {line}\n".encode())
