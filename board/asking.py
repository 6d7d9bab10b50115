"""What every request of the API is held to: the store it reads, and no unknown parameter."""

from typing import Annotated

from fastapi import Depends, Path, Query, Request
from fastapi.dependencies.utils import get_flat_params
from fastapi.params import Query as QueryParameter

from board.answers import ProblemError
from board.paging import MOST_ROWS
from board.store import Store


def the_store(request: Request) -> Store:
    """Return the store of the application."""
    return request.app.state.store


def only_known_parameters(request: Request) -> None:
    """Refuse a parameter that the address does not have, or one that is given twice.

    Raises:
        ProblemError: naming the parameter, and those that there are.
    """
    dependant = getattr(request.scope.get("route"), "dependant", None)
    fields = get_flat_params(dependant) if dependant else []
    known = {each.alias for each in fields if isinstance(each.field_info, QueryParameter)}
    given = [name for name, _ in request.query_params.multi_items()]
    for name in given:
        if name not in known:
            takes = ", ".join(sorted(known)) or "none"
            raise ProblemError(400, f"unknown parameter {name!r}; this address takes: {takes}")
        if given.count(name) > 1:
            raise ProblemError(400, f"parameter {name!r} is given more than once")


def known_cluster(store: "TheStore", cluster: Annotated[str, Path()]) -> str:
    """Return the cluster of an address.

    Raises:
        ProblemError: there are no rows of it.
    """
    if cluster not in store.newest.at:
        raise ProblemError(404, f"no cluster {cluster!r}: GET /api/v1/clusters lists them")
    return cluster


TheStore = Annotated[Store, Depends(the_store)]
Cluster = Annotated[str, Depends(known_cluster)]
Limit = Annotated[int, Query(ge=1, le=MOST_ROWS, description="rows of a page at most")]
Cursor = Annotated[str | None, Query(description="`next_cursor` of the page before")]
