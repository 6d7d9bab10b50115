"""Steps are tried again after an error, and not after an interrupt."""

import dagster as dg
import pytest

from orchestration.jobs import UnlessInterrupted

POLICY = UnlessInterrupted(max_retries=1, delay=0)


def attempts(error):
    """How often a step is tried that an error ends after a cancellation, and how its run ends."""
    tried = []

    @dg.op
    def step(context: dg.OpExecutionContext):
        tried.append(error)
        context.instance.report_run_canceling(context.run)
        raise error

    @dg.job(op_retry_policy=POLICY, executor_def=dg.in_process_executor)
    def job():
        step()

    with dg.DagsterInstance.ephemeral() as instance:
        done = job.execute_in_process(instance=instance, raise_on_error=False)
        run = instance.get_run_by_id(done.run_id)
        return len(tried), run.status


@pytest.mark.parametrize("interrupt", [KeyboardInterrupt(), dg.DagsterExecutionInterruptedError()])
def test_an_interrupted_step_is_not_tried_again(interrupt):
    assert attempts(interrupt) == (1, dg.DagsterRunStatus.CANCELED)


def test_a_failed_step_is_tried_again():
    assert attempts(OSError("the server restarts"))[0] == 2


def test_a_tick_takes_no_interrupt_for_an_error():
    from orchestration.jobs import RETRY

    assert isinstance(RETRY, UnlessInterrupted)
