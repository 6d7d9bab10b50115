"""Each address takes the query parameters of its route, and refuses all others."""

import pytest
from fastapi.dependencies.utils import get_flat_params
from fastapi.params import Query
from fastapi.routing import APIRoute

from tests.support.board_routes import routes
from tidemark.board.dependencies import query_parameters


@pytest.mark.parametrize("route", routes(), ids=lambda route: f"{route.name} {route.path}")
def test_parameters_are_those_that_fastapi_reads(route: APIRoute) -> None:
    """By what FastAPI keeps for itself, which only this test reads: pages are in no schema."""
    read = get_flat_params(route.dependant)
    wanted = {
        model_field.alias for model_field in read if isinstance(model_field.field_info, Query)
    }
    assert query_parameters(route) == wanted
