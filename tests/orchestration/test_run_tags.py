"""Tags that only programs read do not fill Dagster's list of runs."""

from datetime import timedelta

import dagster as dg
from dagster._core.workspace.context import WorkspaceProcessContext
from dagster._core.workspace.load_target import EmptyWorkspaceTarget
from dagster_graphql.cli import execute_query

from assets.dagster_names import (
    LONGEST_TAG,
    OF_TIDEMARK,
    longest_time_tag,
    process_of,
    process_tags,
)
from assets.partitions import PENDING, is_tick
from orchestration.definitions import build
from orchestration.jobs import TICK
from tidemark.settings.environment import Settings

RUNS = "{runsOrError {... on Runs {results {tags {key}}}}}"


def test_dagsters_pages_show_no_tag_of_ours() -> None:
    """The pages get their rows from these queries; programs still find a run by its tags."""
    job = build(Settings()).resolve_job_def(TICK.name)
    with dg.DagsterInstance.local_temp() as instance:
        run = instance.create_run_for_job(job, tags=job.tags)
        more = {**longest_time_tag({}, timedelta(minutes=2)), **process_tags(run.run_id)}
        instance.add_run_tags(run.run_id, more)
        with WorkspaceProcessContext(instance, EmptyWorkspaceTarget()) as pages:
            result = execute_query(pages, RUNS)
        (stored,) = instance.get_runs(dg.RunsFilter(tags=OF_TIDEMARK))
    (shown,) = result["data"]["runsOrError"]["results"]
    assert {tag["key"] for tag in shown["tags"]} == {"dagster/priority", LONGEST_TAG}
    assert PENDING.items() <= stored.tags.items() and is_tick(stored.tags)
    assert process_of(stored.run_id, stored.tags)
