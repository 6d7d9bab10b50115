"""Inhibitions, as rule files declare them: a firing source incident mutes its targets."""

from typing import Annotated, Literal

from pydantic import BeforeValidator, Field

from alerting.rules.matching import IncidentMatch
from settings.fields import Strict, as_tuple

Names = Annotated[tuple[Annotated[str, Field(min_length=1)], ...], BeforeValidator(as_tuple)]


class Inhibition(Strict, frozen=True):
    """While a source fires, its targets are not notified.

    Attributes:
        source: the incidents that inhibit.
        target: the incidents that are inhibited; none that is a source as well.
        equal: labels that have to be the same of both.
        only: ``hidden`` limits it to incidents that depend on numbers that the source hides. An
            unreachable broker hides its own queues and makes the snapshots incomplete; an
            unreadable cluster hides all its numbers. The inhibition then applies from the first
            observation on, before the source fires, and to targets that opened, or last reopened,
            no earlier.
    """

    source: IncidentMatch
    target: IncidentMatch
    equal: Names = ()
    only: Literal["hidden"] | None = None
