"""Retry policy of the steps of a run."""

import sys

import dagster as dg

INTERRUPTS = (KeyboardInterrupt, dg.DagsterExecutionInterruptedError)


class UnlessInterrupted(dg.RetryPolicy):
    """A retry policy that repeats a failed step, but no step that a person has interrupted.

    Dagster's own policy repeats those too, so a run that is terminated in the UI would continue and
    succeed.
    """

    def calculate_delay(self, attempt_num: int) -> float:
        """Return the seconds until the next attempt.

        Raises:
            KeyboardInterrupt: the error under way, where it is an interrupt.
            DagsterExecutionInterruptedError: likewise.
        """
        if isinstance(interrupt := sys.exception(), INTERRUPTS):
            raise interrupt
        return super().calculate_delay(attempt_num)
