"""Leases and shared state in PostgreSQL, for processes on many hosts.

A lease is an advisory lock of a connection that is open for as long as the lease is held. The
server frees it when the connection ends: at once when its process is killed, within half a minute
when its host is lost. A pooler that assigns connections by transaction breaks this, so the address
must name the server itself.
"""

import hashlib
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import datetime
from functools import cached_property

import sqlalchemy as sa
from sqlalchemy.engine import Connection, Engine
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.pool import NullPool

from tidemark.host.failures import essence
from tidemark.host.leases import Lease, Leases, LostError, UnreachableError
from tidemark.host.state import State, StateError

CONNECTION = {
    "connect_timeout": 10,
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 30_000,
}
"""Longest waits for a server that does not respond, in the words of its client library."""

_NAME_LENGTH = 63
"""Length at which the server cuts ``application_name``."""

_SETTLE = sa.text("""
select set_config(name, wanted.value, false)
from (values ('idle_session_timeout', '0'), ('tcp_keepalives_idle', '10'),
  ('tcp_keepalives_interval', '5'), ('tcp_keepalives_count', '3')) as wanted (name, value)
join pg_settings using (name)
""")
"""Keeps the connection open exactly while its host lives; older servers lack some settings."""

_SCHEMA = sa.text("""
select coalesce(
  (select nspname from pg_class c join pg_namespace n on n.oid = c.relnamespace
   where c.oid = to_regclass('iceberg_tables')),
  current_schema(), 'public')
""")
"""Where this connection finds the catalog, or would make it."""

_TAKE = sa.text("select pg_try_advisory_lock(:key)")

_FREE = sa.text("select pg_advisory_unlock(:key)")

_HOLDER = sa.text("""
select a.application_name, l.pid = pg_backend_pid()
from pg_locks l join pg_stat_activity a using (pid)
where l.locktype = 'advisory' and l.granted and l.objsubid = 1
  and l.database = (select oid from pg_database where datname = current_database())
  and (l.classid::bigint << 32) | l.objid::bigint = :key
""")
"""The holder of a lease, and whether it is this connection."""

_HOLDERS = sa.text("""
select distinct a.application_name
from pg_locks l join pg_stat_activity a using (pid)
where l.locktype = 'advisory' and l.granted and l.objsubid = 1 and a.application_name <> ''
  and l.database = (select oid from pg_database where datname = current_database())
order by 1
""")
"""The holders of a database's leases; no lease shows of which schema it is."""

_CREATE = sa.text("""
create table if not exists tidemark_state (
  name text primary key, content text not null, written_at timestamptz not null default now())
""")


class PostgresqlLeases(Leases):
    """Leases as advisory locks of a database, whose schemas are deployments of their own.

    Args:
        uri: SQLAlchemy's address of the database.
        place: how an error names it.
    """

    poll_seconds = 0.5

    def __init__(self, uri: str, place: str) -> None:
        self._uri, self._place = uri, place
        self._schema: str | None = None

    @cached_property
    def _engine(self) -> Engine:
        return _engine_of(self._uri, poolclass=NullPool)

    def _key(self, name: str, connection: Connection) -> int:
        self._schema = self._schema or str(connection.execute(_SCHEMA).scalar_one())
        return key_of(name, self._schema)

    def attempt(self, name: str) -> Lease | None:
        """See `Leases`."""
        with self._reached():
            connection = self._engine.connect()
            try:
                connection.execute(_SETTLE)
                key = self._key(name, connection)
                if connection.execute(_TAKE, {"key": key}).scalar():
                    return _PostgresqlLease(name, key, connection, self._place)
            except BaseException:
                connection.close()
                raise
            connection.close()
            return None

    def holders(self) -> list[str]:
        """See `Leases`."""
        with self._reached(), self._engine.connect() as connection:
            return list(connection.execute(_HOLDERS).scalars())

    def holder(self, name: str) -> str | None:
        """See `Leases`."""
        with self._reached(), self._engine.connect() as connection:
            row = connection.execute(_HOLDER, {"key": self._key(name, connection)}).first()
        return (str(row[0]) if row[0] else f"another process ({self._place})") if row else None

    @contextmanager
    def _reached(self) -> Iterator[None]:
        try:
            yield
        except SQLAlchemyError as error:
            raise UnreachableError(
                f"leases cannot be had: {self._place}: {essence(str(error))}"
            ) from error


class _PostgresqlLease(Lease):
    def __init__(self, name: str, key: int, connection: Connection, place: str) -> None:
        super().__init__(name)
        self._key, self._connection, self._place = key, connection, place

    def confirm(self) -> None:
        try:
            row = self._connection.execute(_HOLDER, {"key": self._key}).first()
            is_mine = row is not None and bool(row[1])
        except SQLAlchemyError:
            is_mine = False
        if not is_mine:
            raise LostError(
                f"the lease {self.name!r} was lost with the connection to {self._place}; "
                "another process may hold it by now"
            )

    def release(self) -> None:
        with suppress(SQLAlchemyError), self._connection as connection:
            # The server would free it a little after the connection has ended.
            connection.execute(_FREE, {"key": self._key})


_NO_TABLE = "42P01"
"""Code of PostgreSQL's errors about a table that does not exist."""


class _NotMadeError(Exception):
    """Nobody has written shared state, so its table does not exist."""


class PostgresqlState(State):
    """Texts as rows of the table ``tidemark_state``, which the first writer makes.

    Args:
        uri: SQLAlchemy's address of the database.
        place: how an error names it.
    """

    def __init__(self, uri: str, place: str) -> None:
        self._uri, self._place = uri, place

    @cached_property
    def _engine(self) -> Engine:
        return _engine_of(self._uri, pool_size=1, max_overflow=4, pool_pre_ping=True)

    def read(self, name: str) -> str | None:
        """See `State`."""
        query = sa.text("select content from tidemark_state where name = :name")
        with suppress(_NotMadeError), self._connected() as connection:
            return connection.execute(query, {"name": name}).scalar()
        return None

    def write(self, name: str, text: str) -> None:
        """See `State`."""
        statement = sa.text(
            "insert into tidemark_state (name, content) values (:name, :content) "
            "on conflict (name) do update set content = excluded.content, written_at = now()"
        )
        row = {"name": name, "content": text}
        with suppress(_NotMadeError), self._connected() as connection:
            connection.execute(statement, row)
            return
        with self._connected() as connection:
            # Two that make it at once: one fails in the server's own tables.
            with suppress(SQLAlchemyError):
                connection.execute(_CREATE)
            connection.execute(statement, row)

    def remove(self, name: str) -> None:
        """See `State`."""
        statement = sa.text("delete from tidemark_state where name = :name")
        with suppress(_NotMadeError), self._connected() as connection:
            connection.execute(statement, {"name": name})

    def names(self, folder: str = "") -> list[str]:
        """See `State`."""
        query = sa.text("select name from tidemark_state where starts_with(name, :folder)")
        with suppress(_NotMadeError), self._connected() as connection:
            rows = connection.execute(query, {"folder": f"{folder}/" if folder else ""})
            return sorted(rows.scalars())
        return []

    @contextmanager
    def _connected(self) -> Iterator[Connection]:
        try:
            with self._engine.connect() as connection:
                yield connection
        except SQLAlchemyError as error:
            if getattr(getattr(error, "orig", None), "pgcode", None) == _NO_TABLE:
                raise _NotMadeError from error
            raise StateError(
                f"shared state cannot be used: {self._place}: {essence(str(error))}"
            ) from error


def server_time(uri: str) -> datetime:
    """Return the instant that the clock of a database shows.

    Args:
        uri: SQLAlchemy's address of it.

    Raises:
        UnreachableError: it does not respond.
    """
    try:
        with _engine_of(uri, poolclass=NullPool).connect() as connection:
            return connection.execute(sa.text("select clock_timestamp()")).scalar_one()
    except SQLAlchemyError as error:
        raise UnreachableError(essence(str(error))) from error


def key_of(name: str, schema: str = "public") -> int:
    """Return the number of an advisory lock, which is unique in a database with all its schemas.

    The same name in the same schema has the same number on every host.
    """
    place = "tidemark" if schema == "public" else f"tidemark/{schema}"
    digest = hashlib.sha256(f"{place}/{name}".encode()).digest()
    return int.from_bytes(digest[:8], "big", signed=True)


def _engine_of(uri: str, **pool: object) -> Engine:
    arguments = {
        "application_name": f"process {os.getpid()} on {socket.gethostname()}"[:_NAME_LENGTH],
        **CONNECTION,
    }
    return sa.create_engine(uri, isolation_level="AUTOCOMMIT", connect_args=arguments, **pool)
