"""The logger of a run at the command line: steps, and lines of our own code."""

import dagster as dg

from orchestration.in_process import step_logger


def test_a_person_reads_what_our_code_reports_and_nothing_of_dagsters_own():
    """Dagster itself reports a check without a result, as of a table without rows."""
    steps, complaints, remarks = [], [], []

    @dg.multi_asset_check(specs=[dg.AssetCheckSpec("check", asset="table")], can_subset=True)
    def validate(context: dg.AssetCheckExecutionContext):
        context.log.info("a server was away")
        context.log.error("a file is wrong")
        yield from ()

    job = dg.define_asset_job("job", dg.AssetSelection.all_asset_checks())
    dg.Definitions(
        asset_checks=[validate],
        jobs=[job],
        loggers={"console": step_logger(steps.append, complaints.append, remarks.append)},
    ).resolve_job_def("job").execute_in_process(run_config={"loggers": {"console": {}}})
    assert (steps, complaints, remarks) == (
        ["validate"],
        ["a file is wrong"],
        ["a server was away"],
    )
