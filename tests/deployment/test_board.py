"""The board of a deployment shows its rows in memory while PostgreSQL or the bucket is down."""

import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from itertools import count
from pathlib import Path

import httpx
import pytest

from tests.support import board_home
from tests.support.deployments import catalog_in, variables_of
from tests.support.homes import TIDEMARK, environment
from tests.support.servers import Server, free_port, object_store_server, postgresql_server
from tidemark.lake.catalog import Lake
from tidemark.lake.catalog_config import CatalogConfig
from tidemark.settings.home import Home

pytestmark = pytest.mark.deployment


@dataclass(kw_only=True)
class Board:
    """A board and the servers whose tables it shows.

    Attributes:
        lake: the tables.
        address: of its API.
        log: what it printed.
    """

    lake: Lake
    database: Server
    store: Server
    address: str
    log: Path

    def observed_at(self) -> str | None:
        """When the newest snapshot that it shows was taken; None where it does not respond."""
        try:
            (row,) = httpx.get(f"{self.address}/clusters").raise_for_status().json()["items"]
        except (httpx.HTTPError, ValueError):
            return None
        return row["observed_at"]

    def history(self) -> int:
        """Return the status of its response to a request that reads the tables."""
        path = "/groups/shop/mailer/orders/history"
        since = board_home.now() - timedelta(hours=1)
        return httpx.get(
            self.address + path, params={"from": f"{since:%Y-%m-%dT%H:%MZ}"}
        ).status_code

    def shows(self, instant: str) -> None:
        deadline = time.monotonic() + 240
        while self.observed_at() != instant:
            assert time.monotonic() < deadline, self.log.read_text()
            time.sleep(0.3)


MINUTES = count(1)


def add_snapshot(lake: Lake) -> str:
    at = board_home.now() - timedelta(minutes=30 - next(MINUTES))
    board_home.add_snapshot(lake, at)
    return f"{at:%Y-%m-%dT%H:%M:%SZ}"


@pytest.fixture(scope="module")
def board(tmp_path_factory) -> Iterator[Board]:
    folder = tmp_path_factory.mktemp("board")
    with (
        postgresql_server(folder / "postgresql") as (uri, database),
        object_store_server(folder / "store") as (bucket, store),
        pytest.MonkeyPatch.context() as patch,
    ):
        catalog = catalog_in(uri, bucket)
        settings = variables_of(catalog, bucket)
        for name in settings.keys() & {"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"}:
            patch.setenv(name, settings[name])
        home = Home.of(folder / "home")
        lake = Lake(home, CatalogConfig.of(home, catalog))
        first, port, log = add_snapshot(lake), free_port(), folder / "board.log"
        with log.open("wb") as output:
            process = subprocess.Popen(
                [str(TIDEMARK), "serve", "--port", str(port)],
                env=environment(home, **settings),
                stdout=output,
                stderr=output,
            )
        try:
            made = Board(
                lake=lake,
                database=database,
                store=store,
                address=f"http://127.0.0.1:{port}/api/v1",
                log=log,
            )
            made.shows(first)
            yield made
        finally:
            process.terminate()
            process.wait(30)


@pytest.mark.parametrize("part", ["database", "store"])
def test_it_shows_what_it_has_while_a_server_is_gone(board: Board, part: str) -> None:
    shown = board.observed_at()
    server: Server = getattr(board, part)
    server.stop()
    time.sleep(3)
    assert board.observed_at() == shown is not None
    assert board.history() in (200, 503), "and no failure of its own"
    server.start()
    board.shows(add_snapshot(board.lake))
    assert board.history() == 200
    _, *lines = board.log.read_text().splitlines()
    assert len(lines) == len(set(lines)), "a line for each reader"
    remedies = ("check PostgreSQL, and TIDEMARK_CATALOG_URI", "check the object store: ")
    assert all(any(remedy in line for remedy in remedies) for line in lines), lines
    assert lines
