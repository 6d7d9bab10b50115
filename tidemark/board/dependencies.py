"""Dependencies of routes: the store, the person, and checks of every parameter.

One that waits for nothing is a coroutine: FastAPI calls a plain function in a thread, and those
may all be waiting for files.
"""

import copy
from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator
from typing import Annotated, Any, TypeVar

from fastapi import Depends, Path, Query, Request
from fastapi.dependencies.models import Dependant
from fastapi.openapi.utils import get_openapi
from fastapi.routing import APIRoute
from starlette.routing import BaseRoute

from tidemark.board.access import Person
from tidemark.board.http_responses import ProblemError
from tidemark.board.middleware import part
from tidemark.board.store import Store
from tidemark.board.views.parameters import MOST_ROWS, instant_of
from tidemark.board.views.view import View

T = TypeVar("T")

_FREE = "free_of_groups"


def free_of_groups(endpoint: T) -> T:
    """Declare that the response of a route names no group, so it needs no view."""
    setattr(endpoint, _FREE, True)
    return endpoint


def paths(routes: Iterable[BaseRoute]) -> Iterator[str]:
    """Yield the paths of routes, also of those that routers include."""
    for route in routes:
        if included := getattr(route, "original_router", None):
            yield from paths(included.routes)
        elif isinstance(path := getattr(route, "path", None), str):
            yield path


def require_views(routes: Iterable[BaseRoute], others: Collection[str]) -> None:
    """Refuse routes that could show a group to somebody who must not see it.

    Args:
        routes: of the application.
        others: paths of routes that FastAPI has not made, each of which is looked after elsewhere.

    Raises:
        TypeError: a route neither reads a view nor is declared free of groups, or it is both, or
            it reads the store beside the view.
    """
    for route in routes:
        if included := getattr(route, "original_router", None):
            require_views(included.routes, others)
            continue
        if not isinstance(route, APIRoute):
            if getattr(route, "path", None) not in others:
                raise TypeError(f"{route}: this route has no view of the person")
            continue
        calls = set(_calls(route.dependant))
        is_free = getattr(route.endpoint, _FREE, False)
        if (the_view in calls) is is_free or (the_store in calls and not is_free):
            raise TypeError(
                f"{route.path}: a route reads TheView, or is declared free_of_groups; not both"
            )


def _calls(dependant: Dependant) -> Iterator[Any]:
    for dependency in dependant.dependencies:
        yield dependency.call
        yield from _calls(dependency)


async def the_store(request: Request) -> Store:
    """Return the store of the application."""
    return request.app.state.store


async def the_view(request: Request) -> View:
    """Return what the person sees: the only way of a route to rows that name groups."""
    return request.app.state.views.of(request.state.person)


def check_readable(store: Store | View) -> None:
    """Refuse to respond from rows that could never be read: no rows would be a wrong response.

    Raises:
        ProblemError: why they cannot be read.
    """
    if store.is_empty and store.problem:
        raise ProblemError(503, store.problem)


async def readable(store: "TheStore") -> None:
    """Refuse as `check_readable` does."""
    check_readable(store)


async def only_known_parameters(request: Request) -> None:
    """Refuse a parameter that the address does not have, or one that is given twice.

    Raises:
        ProblemError: naming the parameter, and those that there are.
    """
    route, parameters = request.scope["route"], request.app.state.query_parameters
    if route.endpoint not in parameters:
        parameters[route.endpoint] = query_parameters(route)
    known = parameters[route.endpoint]
    given: set[str] = set()
    for name, _ in request.query_params.multi_items():
        if name not in known:
            takes = ", ".join(sorted(known)) or "none"
            raise ProblemError(400, f"unknown parameter {name!r}; this address takes: {takes}")
        if name in given:
            raise ProblemError(400, f"parameter {name!r} is given more than once")
        given.add(name)


def query_parameters(route: APIRoute) -> frozenset[str]:
    """Return the names of the query parameters that a route takes, with those of its dependencies.

    Its OpenAPI lists them. FastAPI has no other documented way to learn them.
    """
    # Pages are left out of the published schema, but take parameters too.
    listed = copy.copy(route)
    listed.include_in_schema = True
    paths = get_openapi(title="", version="", routes=[listed])["paths"]
    return frozenset(
        parameter["name"]
        for operations in paths.values()
        for operation in operations.values()
        for parameter in operation.get("parameters", ())
        if parameter["in"] == "query"
    )


def part_of(name: str) -> Callable[..., Awaitable[str]]:
    """Return a dependency that gives a part of the address as it was written."""

    async def written(value: Annotated[str, Path(alias=name)]) -> str:
        return part(value)

    return written


def known_cluster(request: Request, view: "TheView", cluster: Annotated[str, Path()]) -> str:
    """Return the cluster of an address.

    Raises:
        ProblemError: there are no rows of it, now or at the instant that the address is about.
    """
    name, given = part(cluster), request.query_params
    if name in view.newest.at:
        return name
    # It may have been collected then, and not any more.
    for parameter in ("at", "to"):
        if (at := given.get(parameter)) and name in view.at(instant_of(parameter, at)).at:
            return name
    raise ProblemError(404, f"no cluster {name!r}: GET /api/v1/clusters lists them")


async def json_only(request: Request) -> None:
    """Refuse a change that is not sent as JSON: a form of another site could send anything else.

    Raises:
        ProblemError: it is not.
    """
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json":
        raise ProblemError(415, "send it as Content-Type: application/json")


async def who(request: Request) -> Person:
    """Return the person that sends the request."""
    return request.state.person


TheStore = Annotated[Store, Depends(the_store)]
"""The rows of all groups, for routes that are declared free of them."""

TheView = Annotated[View, Depends(the_view)]
ThePerson = Annotated[Person, Depends(who)]
Cluster = Annotated[str, Depends(known_cluster)]
JsonOnly = Depends(json_only)
At = Annotated[str | None, Query(description="as of this instant, ISO 8601; now without")]
Limit = Annotated[int, Query(ge=1, le=MOST_ROWS, description="rows of a page at most")]
Cursor = Annotated[str | None, Query(description="`next_cursor` of the page before")]
