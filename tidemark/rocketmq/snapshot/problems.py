"""The problems of one snapshot: requests that failed, and why."""

from collections import Counter
from dataclasses import replace
from types import TracebackType
from typing import Self

from tidemark.rocketmq.records import Problem
from tidemark.rocketmq.wire.codes import (
    FORWARDED_TO_CLIENTS,
    LOOKS_UP_MESSAGES,
    BadResponseError,
    BrokenFrameError,
    BudgetError,
    DeniedError,
    RemotingError,
    RequestCode,
    ResponseError,
)

MOST_PROBLEMS = 2_000
"""Problems of one snapshot: the other side decides how many requests it fails."""

MOST_TEXT = 8 * 1024 * 1024
"""Characters of all of them: some name each group whose members are unknown."""

LONGEST_MESSAGE = 2_000
"""Most characters of one message, because it may repeat text of a broker."""


DETAILS = frozenset(
    code.name
    for code in (
        *(RequestCode.QUERY_CONSUME_TIME_SPAN, RequestCode.QUERY_CONSUME_QUEUE),
        *(RequestCode.VIEW_BROKER_STATS_DATA, *LOOKS_UP_MESSAGES, *FORWARDED_TO_CLIENTS),
    )
)
"""Requests about a single queue, counter, message or client. Each that fails leaves a fact unknown,
and nothing else is concluded from it."""

NAMED_DETAILS = 100
"""Failed requests of one kind in `DETAILS` that an endpoint has a problem of its own for."""


class Problems:
    """The failed requests of a snapshot. ``with problems:`` records a failure and suppresses it.

    A request is written as ``with problems: row = await ...``. An unreachable broker, or one that
    denies access, fails every request. Only the first failure of each kind is kept; the others are
    counted.

    Attributes:
        left_out: problems beyond `MOST_PROBLEMS` and `MOST_TEXT`. A snapshot with such problems
            does not name everything that is unknown in it, so nothing can be concluded from it.
    """

    def __init__(self) -> None:
        self.left_out = 0
        self._text = 0
        self._found: dict[tuple[object, ...], Problem] = {}
        self._repeated: dict[tuple[object, ...], int] = {}
        self._details: Counter[tuple[str, str]] = Counter()

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
        problem = Problem(
            endpoint=error.endpoint,
            operation=error.operation,
            code=error.code,
            message=error.reason,
        )
        match error:
            case DeniedError() | BudgetError():
                self._add(problem, (error.endpoint, type(error)))
            case ResponseError() | BadResponseError() if not isinstance(error, BrokenFrameError):
                self.add(problem)
            case _:
                self._add(problem, (error.endpoint, "transport"))
        return True

    def add(self, problem: Problem) -> None:
        """Record one problem; of many details that an endpoint refuses only the first ones."""
        kind = problem.endpoint, problem.operation.partition(" ")[0]
        if kind[1] in DETAILS:
            self._details[kind] += 1
        self._add(problem, kind if self._details[kind] > NAMED_DETAILS else (problem,))

    def operations_at(self, endpoint: str) -> set[str]:
        """Return the operations that problems of an endpoint name."""
        return {
            problem.operation for problem in self._found.values() if problem.endpoint == endpoint
        }

    def is_denied_at(self, endpoint: str) -> bool:
        """Return whether an endpoint denied access to a request."""
        return (endpoint, DeniedError) in self._found

    def rows(self) -> list[Problem]:
        """Return all problems, in order; the first one counts those that are left out."""
        rows = [
            replace(problem, message=f"{problem.message} ({more} more requests failed)")
            if (more := self._repeated[key])
            else problem
            for key, problem in self._found.items()
        ]
        if self.left_out:
            more = (
                f"{self.left_out} problems more than the {len(rows)} that a snapshot names, "
                "so it keeps no rows"
            )
            endpoint = rows[0].endpoint
            rows.insert(0, Problem(endpoint=endpoint, operation="collect", code=None, message=more))
        return rows

    def add_unsent(self, endpoint: str, requests: int) -> None:
        """Count requests that were not sent to an endpoint because none was in time any more."""
        for key in ((endpoint, "transport"), (endpoint, BudgetError)):
            if key in self._found:
                self._repeated[key] += requests
                return

    def _add(self, problem: Problem, key: tuple[object, ...]) -> None:
        if key in self._found:
            self._repeated[key] += 1
            return
        if len(problem.message) > LONGEST_MESSAGE:
            problem = replace(problem, message=problem.message[: LONGEST_MESSAGE - 3] + "...")
        size = len(problem.operation) + len(problem.message)
        if self._found and (len(self._found) >= MOST_PROBLEMS or self._text + size > MOST_TEXT):
            self.left_out += 1
            return
        self._text += size
        self._found[key], self._repeated[key] = problem, 0
