"""The routes of the board, with the parameters that they take."""

import importlib
import pkgutil
from collections.abc import Iterator

from fastapi.routing import APIRoute

from tidemark import board


def routes() -> Iterator[APIRoute]:
    for module in pkgutil.walk_packages(board.__path__, "tidemark.board."):
        router = getattr(importlib.import_module(module.name), "router", None)
        yield from getattr(router, "routes", ())
