"""A board on a home of the test's own."""

from collections.abc import Iterator

import pytest
from fastapi.testclient import TestClient

from board.application import application
from board.store import Store
from lake.catalog import Lake
from tests.support import board_home


@pytest.fixture
def filled(lake: Lake) -> Lake:
    """The test's lake with one snapshot of a cluster, taken now."""
    board_home.add_snapshot(lake, board_home.now())
    return lake


@pytest.fixture
def store(filled: Lake) -> Store:
    made = Store(filled)
    made.refresh()
    return made


@pytest.fixture
def client(store: Store) -> Iterator[TestClient]:
    """A client of an application that shows the filled lake."""
    with TestClient(application(store), base_url="http://127.0.0.1:8080") as client:
        yield client
