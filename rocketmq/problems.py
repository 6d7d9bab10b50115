"""The list of what went wrong during one look at a cluster."""

from dataclasses import replace
from types import TracebackType
from typing import Self

from rocketmq.errors import (
    BadAnswerError,
    BrokenFrameError,
    BudgetError,
    DeniedError,
    RemotingError,
    ResponseError,
)
from rocketmq.rows import Problem


class Problems:
    """Collects failed requests: ``with problems: row = await ...`` writes down and goes on.

    A broker whose connection fails or that is silent, and one that denies us access, fails
    everything that is asked of it; of each of these the first is kept, the others are counted.
    """

    def __init__(self) -> None:
        self._found: dict[tuple[object, ...], Problem] = {}
        self._repeated: dict[tuple[object, ...], int] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> bool:
        if not isinstance(error, RemotingError):
            return False
        found = Problem(error.endpoint, error.operation, error.code, error.reason)
        match error:
            case DeniedError() | BudgetError():
                self._add(found, (error.endpoint, type(error)))
            case ResponseError() | BadAnswerError() if not isinstance(error, BrokenFrameError):
                self.add(found)
            case _:
                self._add(found, (error.endpoint, "transport"))
        return True

    def add(self, problem: Problem) -> None:
        """Write down one problem."""
        self._add(problem, (problem,))

    def rows(self) -> list[Problem]:
        """Everything written down, in order."""
        return [
            replace(problem, message=f"{problem.message} ({more} more requests failed)")
            if (more := self._repeated[key])
            else problem
            for key, problem in self._found.items()
        ]

    def _add(self, problem: Problem, key: tuple[object, ...]) -> None:
        if key in self._found:
            self._repeated[key] += 1
        else:
            self._found[key], self._repeated[key] = problem, 0
