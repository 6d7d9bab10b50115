"""Run launcher of Dagster's daemon: forks a run from the warm server, if one is running."""

from dagster import DagsterRun

from assets.dagster_names import process_of, process_tags
from orchestration.instance.runs import is_dead, stop
from tidemark.embedded import forking
from tidemark.embedded.dagster_private import (
    RUN_PROGRAM,
    CheckRunHealthResult,
    DefaultRunLauncher,
    ExecuteRunArgs,
    LaunchRunContext,
    WorkerStatus,
    serialize_value,
)
from tidemark.settings.basics import BasicSettings


class ForkingRunLauncher(DefaultRunLauncher):
    """Dagster's launcher, but for runs that the fork server of the home can take."""

    def launch_run(self, context: LaunchRunContext) -> None:
        """Start the run and tag it with its process."""
        run, origin = context.dagster_run, context.job_code_origin
        if origin is None:
            super().launch_run(context)
            return
        arguments = ExecuteRunArgs(origin, run.run_id, self._instance.get_ref())
        home = BasicSettings.read().home
        pid = forking.start(
            home,
            RUN_PROGRAM,
            ["api", "execute_run", serialize_value(arguments)],
            home.dagster / "runs.log",
        )
        if pid is None:
            super().launch_run(context)
            return
        self._instance.add_run_tags(run.run_id, process_tags(run.run_id, pid))

    def terminate(self, run_id: str) -> bool:
        """End the run, by force when it does not end itself; return False when it does not run."""
        run = self._instance.get_run_by_id(run_id)
        if run is None or not process_of(run_id, run.tags):
            return super().terminate(run_id)
        return not run.is_finished and stop(self._instance, run)

    @property
    def supports_check_run_worker_health(self) -> bool:
        """Always true: otherwise Dagster's daemon would not check runs by the next method."""
        return True

    def check_run_worker_health(self, run: DagsterRun) -> CheckRunHealthResult:
        """Return whether the run's process runs.

        A run that has not named its process yet has just started. One that never does is ended by
        its longest time.
        """
        if is_dead(run):
            return CheckRunHealthResult(WorkerStatus.NOT_FOUND, "its process has ended")
        return CheckRunHealthResult(WorkerStatus.RUNNING)
