"""The demo counts the ticks that ended, without reading those of days again every second."""

from datetime import UTC, datetime, timedelta

import dagster as dg

from orchestration.jobs import TICK
from tidemark.cli.demonstration import OVERLAP, finished

HOUR = timedelta(hours=1)


def test_ticks_that_ended_since_the_last_look_are_read() -> None:
    began = datetime.now(UTC)
    with dg.DagsterInstance.ephemeral() as instance:
        for name, status in (("a", "SUCCESS"), ("b", "FAILURE"), ("c", "STARTED")):
            run = dg.DagsterRun(job_name=TICK.name, run_id=name, status=dg.DagsterRunStatus(status))
            instance.add_run(run)
        other = dg.DagsterRun(job_name="other", run_id="d", status=dg.DagsterRunStatus.SUCCESS)
        instance.add_run(other)

        def names(since: datetime, checked_at: datetime) -> list[str]:
            records = finished(instance, since, checked_at)
            return [record.dagster_run.run_id for record in records]

        before, now = began - HOUR, datetime.now(UTC)
        assert names(before, before) == ["a", "b"]
        assert names(before, now) == ["a", "b"], "a record may be seen late"
        assert names(before, now + OVERLAP + HOUR) == []
        assert names(now + HOUR, now) == [], "ticks of an earlier demo"
