"""A board on a home of the test's own, and one that tests of a module only read."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from fastapi.testclient import TestClient

from tests.support import board_home
from tests.support.lake_copies import copied
from tidemark.board.application import application
from tidemark.board.store import Store
from tidemark.lake.catalog import Lake
from tidemark.settings.home import Home

BASE_URL = "http://127.0.0.1:8080"


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory, empty_lake: Lake) -> Lake:
    """A lake with one snapshot of a cluster, taken now, which no test changes."""
    made = copied(empty_lake, Home.of(tmp_path_factory.mktemp("shown") / "home"))
    board_home.add_snapshot(made, board_home.now())
    return made


@pytest.fixture(scope="module")
def board(shown: Lake) -> Store:
    """The rows that `reader` shows."""
    made = Store(shown)
    made.refresh()
    return made


@pytest.fixture(scope="module")
def reader(board: Store) -> Iterator[TestClient]:
    """A client of a whole application, threads and all, for tests that change nothing."""
    with TestClient(application(board), base_url=BASE_URL) as client:
        yield client


@pytest.fixture
def filled(shown: Lake, tmp_path: Path) -> Lake:
    """The same rows in a lake of the test's own."""
    return copied(shown, Home.of(tmp_path / "home"))


@pytest.fixture
def store(filled: Lake) -> Store:
    made = Store(filled)
    made.refresh()
    return made


@pytest.fixture
def client(store: Store) -> TestClient:
    """A client of an application that shows the filled lake.

    The application is not entered, so its threads do not run: a test that adds rows calls
    ``store.refresh()``.
    """
    return TestClient(application(store), base_url=BASE_URL)
