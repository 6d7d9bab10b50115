"""Retry policy of the steps of a run."""

import sys

import dagster as dg

INTERRUPTS = (KeyboardInterrupt, dg.DagsterExecutionInterruptedError)


class UnlessInterrupted(dg.RetryPolicy):
    """A policy that tries a failed step again, and not one that a person has interrupted.

    Dagster retries these too. A run that is terminated in the UI would go on, and succeed.
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
