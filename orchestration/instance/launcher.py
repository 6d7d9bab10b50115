"""How the daemon starts runs: forked from the warm server when one runs, else as Dagster does."""

import os
import signal

from dagster import DagsterRun

from orchestration.instance import forking
from orchestration.instance.dagster_private import (
    RUN_PROGRAM,
    CheckRunHealthResult,
    DefaultRunLauncher,
    ExecuteRunArgs,
    LaunchRunContext,
    WorkerStatus,
    serialize_value,
)
from orchestration.instance.dead_runs import PROCESS_TAG, is_alive, process_tag
from settings.basics import BasicSettings


class ForkingRunLauncher(DefaultRunLauncher):
    """Dagster's launcher, but for runs that the fork server of the home can take."""

    def launch_run(self, context: LaunchRunContext) -> None:
        """Starts the run and tags it with its process."""
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
        self._instance.add_run_tags(run.run_id, process_tag(pid))

    def terminate(self, run_id: str) -> bool:
        """Interrupts the run; False when it does not run."""
        run = self._instance.get_run_by_id(run_id)
        if run is None or PROCESS_TAG not in run.tags:
            return super().terminate(run_id)
        if run.is_finished or not is_alive(run.tags[PROCESS_TAG]):
            return False
        self._instance.report_run_canceling(run)
        os.kill(int(run.tags[PROCESS_TAG].split("/")[0]), signal.SIGINT)
        return True

    def check_run_worker_health(self, run: DagsterRun) -> CheckRunHealthResult:
        """Whether the run's process runs."""
        if PROCESS_TAG not in run.tags:
            return super().check_run_worker_health(run)
        alive = is_alive(run.tags[PROCESS_TAG])
        return CheckRunHealthResult(WorkerStatus.RUNNING if alive else WorkerStatus.NOT_FOUND)
