"""The right of one process to do a thing, as files of a home and in PostgreSQL."""

import socket
import subprocess
import sys
import threading
import time
from contextlib import closing

import psycopg2
import pytest
from filelock import FileLock
from sqlalchemy.engine import Connection

from tests.support.homes import environment
from tests.support.servers import PASSWORD, postgresql
from tidemark.host.leases import FileLeases, HeldError, LostError, UnreachableError
from tidemark.host.postgresql import PostgresqlLeases, PostgresqlState, key_of
from tidemark.host.shared import Shared
from tidemark.host.state import StateError
from tidemark.settings.home import Home

pytestmark = pytest.mark.slow

HOLD = """
import sys, time
from tidemark.host.shared import Shared
from tidemark.settings.home import Home
place = sys.argv[1]
if place.startswith("postgresql"):
    shared = Shared.of_database(place, "the database")
else:
    shared = Shared.of_home(Home.of(place))
lease = shared.leases.acquire("x", 20)
print("held", flush=True)
time.sleep(60)
"""


@pytest.fixture(scope="module")
def database(tmp_path_factory):
    with postgresql(tmp_path_factory.mktemp("leases")) as uri:
        yield uri.replace("postgresql:", "postgresql+psycopg2:")


@pytest.fixture(params=["files", "postgresql"])
def place(request, tmp_path):
    if request.param == "files":
        return str(tmp_path / "home")
    return request.getfixturevalue("database")


@pytest.fixture
def shared(place):
    if place.startswith("postgresql"):
        return Shared.of_database(place, "the database")
    return Shared.of_home(Home.of(place))


@pytest.fixture
def other(place, tmp_path):
    """Another process that holds the lease ``x``."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD, place],
        env=environment(Home.of(tmp_path)),
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout and process.stdout.readline() == "held\n"
    yield process
    process.kill()
    process.communicate()


def test_one_holds_a_lease_at_a_time(shared):
    first = shared.leases.attempt("x")
    assert first is not None
    first.confirm()
    assert shared.leases.attempt("x") is None
    with shared.leases.acquire("y"):
        pass
    first.release()
    first.release()
    with shared.leases.acquire("x"), pytest.raises(HeldError, match="the lease 'x' is held by"):
        shared.leases.acquire("x")


def test_another_process_is_named_and_waited_for(shared, other):
    printed = []
    with pytest.raises(HeldError):
        shared.leases.acquire("x", 0.1, printed.append)
    assert printed == [f"process {other.pid} on {socket.gethostname()}"]


def test_a_process_that_waits_works_after_each_attempt(shared, other):
    attempts = []
    with pytest.raises(HeldError):
        shared.leases.acquire("x", 0.1, meanwhile=lambda: attempts.append("failed"))
    assert len(attempts) > 1


def test_a_lease_ends_when_its_holder_is_killed(shared, other):
    assert shared.leases.attempt("x") is None
    other.kill()
    began = time.monotonic()
    with shared.leases.acquire("x", 20):
        assert time.monotonic() - began < 5


def test_a_released_lease_is_free_while_its_connection_ends(database, monkeypatch):
    """The server frees the leases of a connection a little after its end."""
    lease = PostgresqlLeases(database, "the database").acquire("z")
    with monkeypatch.context() as patch:
        patch.setattr(Connection, "close", lambda _: None)
        lease.release()
    with _connected(database) as connection, connection.cursor() as cursor:
        cursor.execute(
            "select count(*) from pg_locks where locktype = 'advisory' "
            "and (classid::bigint << 32) | objid::bigint = %s",
            [key_of("z")],
        )
        assert cursor.fetchall() == [(0,)]
    lease.release()


def test_a_lease_whose_holder_just_went_is_taken_at_once(database):
    class Refused(PostgresqlLeases):
        """Lets the holder release its lease right after an attempt has failed."""

        def attempt(self, name):
            lease = super().attempt(name)
            held.release()
            return lease

    held = PostgresqlLeases(database, "the database").acquire("y")
    warned = []
    with Refused(database, "the database").acquire("y", waiting=warned.append):
        assert warned == []


def test_schemas_of_a_database_are_deployments_of_their_own(database):
    """The collector of the second one stood by for ever, and its state was never shared."""
    with _connected(database) as connection, connection.cursor() as cursor:
        cursor.execute("create schema blue; create schema green")
    blue, green, public = (
        PostgresqlLeases(f"{database}?options=-csearch_path%3D{path}", "the database")
        for path in ("blue", "green", "public")
    )
    with blue.acquire("w"), green.acquire("w"), public.acquire("w") as lease:
        lease.confirm()
        assert blue.attempt("w") is None and blue.holder("w")
        assert PostgresqlLeases(database, "the database").attempt("w") is None


def test_who_uses_the_catalog_of_another_schema_shares_its_leases(database):
    """PyIceberg takes the first catalog on the search path, not only one of the first schema."""
    with _connected(database) as connection, connection.cursor() as cursor:
        cursor.execute("create schema theirs; create schema own")
        cursor.execute("create table theirs.iceberg_tables ()")
    through, direct = (
        PostgresqlLeases(f"{database}?options=-csearch_path%3D{path}", "the database")
        for path in ("own,theirs", "theirs")
    )
    with through.acquire("v"):
        assert direct.attempt("v") is None


def test_texts_are_replaced_as_a_whole(shared):
    state = shared.state
    assert state.read("a/b.json") is None
    state.write("a/b.json", "{}")
    state.write("a/c.json", "[]")
    state.write("a/b.json", "1")
    assert state.read("a/b.json") == "1"
    assert state.names("a") == ["a/b.json", "a/c.json"]
    assert state.names("other") == []
    state.remove("a/b.json")
    state.remove("a/b.json")
    assert state.read("a/b.json") is None
    assert state.names("a") == ["a/c.json"]


def test_a_holder_learns_that_its_connection_ended(database):
    leases = PostgresqlLeases(database, "the database")
    lease = leases.attempt("run")
    assert lease is not None
    with _connected(database) as connection, connection.cursor() as cursor:
        cursor.execute(
            "select pg_terminate_backend(pid) from pg_locks where locktype = 'advisory' "
            "and (classid::bigint << 32) | objid::bigint = %s",
            [key_of("run")],
        )
        assert cursor.fetchall() == [(True,)]
    with pytest.raises(LostError, match="the lease 'run' was lost with the connection"):
        lease.confirm()
    with leases.acquire("run", 5):
        pass
    lease.release()


def test_readers_of_state_make_no_table_and_the_first_writer_does(database):
    """Dagster reads shared state whenever it loads its definitions."""
    with closing(psycopg2.connect(database.replace("+psycopg2", ""))) as connection:
        connection.autocommit = True
        cursor = connection.cursor()
        cursor.execute("drop table if exists tidemark_state")
        state = PostgresqlState(database, "the database")
        assert (state.read("raw_since"), state.names()) == (None, [])
        state.remove("raw_since")
        cursor.execute("select to_regclass('tidemark_state')")
        assert cursor.fetchone() == (None,)
        state.write("raw_since", "now")
        assert (state.read("raw_since"), state.names()) == ("now", ["raw_since"])


def test_a_server_that_is_gone_is_one_line():
    uri = f"postgresql+psycopg2://lake:{PASSWORD[0]}@127.0.0.1:1/x"
    with pytest.raises(
        UnreachableError, match=r"^leases cannot be had: PostgreSQL at x: .*refused"
    ):
        PostgresqlLeases(uri, "PostgreSQL at x").attempt("run")
    with pytest.raises(
        StateError, match=r"^shared state cannot be used: PostgreSQL at x: .*refused"
    ):
        PostgresqlState(uri, "PostgreSQL at x").read("silences.json")


def test_a_home_is_for_its_user_alone(tmp_path):
    home = Home.of(tmp_path / "a" / "home")
    FileLeases(home).acquire("run").release()
    assert home.path.stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize(
    ("then", "named"),
    [("names itself", "process 7"), ("releases", None), ("stays", "another process (x.lock)")],
)
def test_a_holder_is_named_once_it_had_time_for_it(tmp_path, then, named):
    """The lock comes before the name and goes after it; a full disk keeps no name."""
    home = Home.of(tmp_path)
    lock = FileLock(tmp_path / "x.lock", thread_local=False)
    lock.acquire()
    end = {
        "names itself": lambda: (tmp_path / "x.holder").write_text("process 7"),
        "releases": lock.release,
        "stays": lambda: None,
    }[then]
    leases = FileLeases(home)
    leases.poll_seconds = 0.5
    timer = threading.Timer(0.05, end)
    timer.start()
    try:
        holder = leases.holder("x")
    finally:
        timer.join()
        lock.release(force=True)
    assert (holder and holder.replace(f"{tmp_path}/", "")) == named


def _connected(uri):
    return psycopg2.connect(uri.replace("+psycopg2", ""))
