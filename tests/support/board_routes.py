"""The routes of the board, with the parameters that they take."""

import importlib
import pkgutil
from collections.abc import Iterator
from functools import cache

from fastapi.routing import APIRoute

from tidemark import board
from tidemark.board.dependencies import query_parameters


def routes() -> Iterator[APIRoute]:
    for module in pkgutil.walk_packages(board.__path__, "tidemark.board."):
        router = getattr(importlib.import_module(module.name), "router", None)
        yield from getattr(router, "routes", ())


@cache
def parameters_of_pages() -> dict[str, frozenset[str]]:
    """Return the parameters of the query that each page takes, by its path."""
    return {
        route.path: query_parameters(route) for route in routes() if "GET" in (route.methods or ())
    }
