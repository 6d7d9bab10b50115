"""The checks of `tidemark doctor`: each ends in time, with a line for each mistake."""

import re
import shutil
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from contextvars import copy_context
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from pathlib import PurePath
from queue import Empty, SimpleQueue
from threading import Thread
from uuid import uuid4

import pyarrow as pa
import pyarrow.parquet as pq
import typer
from pyiceberg.table import Table as IcebergTable
from sqlalchemy.engine import make_url

from tidemark.cli.invocation import CommandError, MistakesError
from tidemark.host.failures import one_line
from tidemark.host.leases import TABLES, LeaseError, UnreachableError
from tidemark.host.postgresql import server_time
from tidemark.lake.catalog import NAME, Lake
from tidemark.lake.catalog_config import CatalogConfig, place_of
from tidemark.lake.damaged_files import usable
from tidemark.lake.landing import SET_ASIDE, aside
from tidemark.lake.landing_places import HEADER, Landing
from tidemark.settings.environment import Settings
from tidemark.settings.home import Home
from tidemark.settings.sections import HTTP, REST

WAITS_SECONDS = 10.0
"""Longest wait for a server's response; other checks report a server without one."""

MINUTE = timedelta(minutes=1)


def check_clock(config: CatalogConfig) -> str:
    """Compare this host's clock with those of the database and of servers that speak HTTP.

    A difference counts from half a minute on: a ``Date`` has seconds, and a round trip takes some.

    Args:
        config: how the catalog is reached.

    Raises:
        CommandError: the clock of this host is minutes off one of them.
    """
    compared = []
    for place, read in _clocks(config):
        ahead = _ahead(read)
        if ahead is None:
            continue
        if minutes := abs(round(ahead / MINUTE)):
            side = "behind" if ahead > timedelta(0) else "ahead of"
            raise CommandError(
                f"the clock of this host is {minutes} min {side} that of {place}: synchronize it, "
                "snapshots have its time"
            )
        compared.append(place)
    if not compared:
        return "not compared: no server of the settings has one"
    return f"within a minute of {', '.join(compared)}"


def _clocks(config: CatalogConfig) -> Iterator[tuple[str, Callable[[], datetime | None]]]:
    """Yield the servers of a catalog, and how the clock of each is read."""
    if config.database:
        yield place_of(make_url(config.database)), lambda: server_time(config.database)
    of_catalog = config.python["uri"] if config.python["type"] == REST else ""
    for address in (of_catalog, config.python.get("s3.endpoint", "")):
        if address.startswith(HTTP):
            yield address, lambda address=address: _date_of(address)


def _ahead(read: Callable[[], datetime | None]) -> timedelta | None:
    """Return how far a clock is ahead of ours; None where it cannot be read."""
    started, at = time.monotonic(), datetime.now(UTC)
    with suppress(OSError, ValueError, UnreachableError):
        if instant := read():
            return instant - at - timedelta(seconds=time.monotonic() - started) / 2
    return None


def _date_of(address: str) -> datetime | None:
    """Return the ``Date`` of a response, of an error too; None without one."""
    request = urllib.request.Request(address, method="HEAD")
    try:
        with urllib.request.urlopen(request, timeout=WAITS_SECONDS) as response:
            date = response.headers["Date"]
    except urllib.error.HTTPError as error:
        date = error.headers["Date"]
    return parsedate_to_datetime(date) if date else None


_NAMESPACE = "quality"
"""One that every catalog has."""

_UNSET = re.compile(r'environment variable "(\w+)"')
"""Dagster's text about a variable of its file that has no value."""

LEAST_FREE = 100 * 2**20
"""Fewest free bytes of a disk on which a home can work for a while."""

_ROWS = pa.table({"number": pa.array([1, 2, 3], pa.int64())})


def check_catalog(lake: Lake) -> str:
    """Create a table, write to it, read it and drop it; return the catalog and warehouse used.

    Raises:
        DamagedError: the catalog or the warehouse does not do that.
    """
    catalog, name = lake.catalog, f"{_NAMESPACE}.doctor_{uuid4().hex}"
    tables = sum(len(catalog.list_tables(namespace)) for namespace in catalog.list_namespaces())
    warehouse = lake.config.python["warehouse"]
    with usable(f"the warehouse {warehouse}"):
        made = catalog.create_table(name, _ROWS.schema)
        try:
            made.append(_ROWS)
            rows = made.scan().to_arrow().num_rows
            _check_removal(made)
        finally:
            catalog.purge_table(name)
    _same(rows, warehouse)
    return f"{tables} tables in {lake.config.place or lake.home.path}, files in {warehouse}"


def _check_removal(table: IcebergTable) -> None:
    """Write a file beside those of a table and delete it: dropping a table ignores a refusal.

    Raises:
        OSError: files cannot be deleted.
    """
    address = f"{table.location()}/metadata/doctor"
    with table.io.new_output(address).create() as file:
        file.write(b"deleted")
    table.io.delete(address)


def check_home(home: Home) -> str:
    """Write a file into the home, read it and delete it; return the path and its free space.

    Raises:
        CommandError: the home cannot be written, or its disk is full.
    """
    advice = "let this user write there, or name another folder with TIDEMARK_HOME"
    try:
        file = home.make() / f".doctor_{uuid4().hex}"
        try:
            file.write_bytes(b"\0" * 4096)
            count = len(file.read_bytes())
        finally:
            file.unlink(missing_ok=True)
        free = shutil.disk_usage(home.path).free
    except OSError as error:
        raise CommandError(f"{home.path} cannot be written: {error.strerror}; {advice}") from error
    if count < 4096 or free < LEAST_FREE:
        raise CommandError(
            f"{home.path}: {free >> 20} MB are free, {LEAST_FREE >> 20} MB at least are needed: "
            "make room, or lower TIDEMARK_RAW_DAYS"
        )
    return f"{home.path}, {free / 2**30:.1f} GB free"


def check_state(lake: Lake) -> str:
    """Take a lease, write a text of shared state, read it and delete it; return where.

    Raises:
        CommandError: leases or shared state cannot be used.
    """
    database = lake.config.database
    place = place_of(make_url(database)) if database else str(lake.home.path)
    name, text = f"doctor_{uuid4().hex}.json", "[1, 2, 3]"
    try:
        if lease := lake.shared.leases.attempt(TABLES):
            lease.release()
        lake.shared.state.write(name, text)
        try:
            result = lake.shared.state.read(name)
        finally:
            lake.shared.state.remove(name)
    except (LeaseError, OSError) as error:
        raise CommandError(
            f"{one_line(error)}; start it, or mend TIDEMARK_STATE_URI, or TIDEMARK_CATALOG_URI "
            "where that is not set"
        ) from error
    if result != text:
        raise CommandError(f"{place}: a text was not there after writing")
    return f"leases and shared state in {place}"


def check_landing(landing: Landing) -> str:
    """Write a snapshot's file, read it and delete it; return where.

    Raises:
        OSError: the landing does not do that.
    """
    # A leading dot keeps it out of loads.
    place: PurePath = landing.root / ".doctor" / uuid4().hex
    content = pa.BufferOutputStream()
    pq.write_table(_ROWS, content)
    with landing.writing(place) as unfinished:
        landing.write(unfinished / HEADER, content.getvalue())
    try:
        with landing.open(place / HEADER) as file:
            rows = pq.ParquetFile(file).read().num_rows
    finally:
        landing.remove(place)
        landing.remove_empty(place.parent)
    _same(rows, str(landing))
    if left_out := aside(landing):
        return (
            f"{landing}; {len(left_out)} snapshots of a wrong clock are set aside in {SET_ASIDE}, "
            f"the newest of {left_out[-1].observed_at:%Y-%m-%dT%H:%M:%SZ}"
        )
    return str(landing)


def check_spark(settings: Settings) -> str:
    """Make a table by the Spark of the settings, write to it, read it and drop it.

    Without a server, an engine or a cluster nothing is started: each run then has a Spark of its
    own, and only its Java is checked.

    Raises:
        CommandError: Spark does not do that.
        UnreachableError: no Spark responds, or there is no Java that it runs on.
    """
    from orchestration.resources import spark_config
    from spark.session.configuration import LOCAL_MASTER, SparkResource, require_java

    config = spark_config(settings)
    master = config.get("spark.master", "")
    if "spark.remote" not in config and master.startswith("local"):
        require_java()
        return "not running; ticks start a Spark of their own"
    place = config.get("spark.remote", master).partition("/;")[0]
    session = SparkResource(spark_config=config).session_for(rows=1)
    name = f"{NAME}.{_NAMESPACE}.doctor_{uuid4().hex}"
    session.sql(f"CREATE TABLE {name} (number BIGINT) USING iceberg").collect()
    try:
        session.createDataFrame([(1,), (2,), (3,)], "number BIGINT").writeTo(name).append()
        count = session.table(name).count()
    finally:
        session.sql(f"DROP TABLE {name} PURGE").collect()
    _same(count, place)
    return place if place != LOCAL_MASTER else "in this process"


def check_dagster(settings: Settings) -> str:
    """Write a run to Dagster's storage, read it and delete it; return where.

    Raises:
        CommandError: the storage does not do that.
    """
    import dagster as dg

    from orchestration.instance.dagster_home import prepare

    folder, run = prepare(settings.home), dg.DagsterRun(job_name="doctor", run_id=str(uuid4()))
    try:
        with dg.DagsterInstance.get() as instance:
            instance.run_storage.add_run(run)
            dagster_run = instance.get_run_by_id(run.run_id)
            instance.delete_run(run.run_id)
            kind = type(instance.run_storage).__name__
    except Exception as error:
        why = one_line(_first_cause(error))
        advice = f"mend {folder}/dagster.yaml, or the variables that it names"
        if missing := _UNSET.search(str(error)):
            why, advice = f"{missing[1]} is not set", f"{folder}/dagster.yaml names it"
        elif "No module named" in why:
            advice = "install tidemark[postgres], and begin the address with postgresql+psycopg2://"
        raise CommandError(f"Dagster's storage cannot be used: {why}; {advice}") from error
    _same(3 if dagster_run else 0, str(folder))
    return f"{kind}, {folder}"


def _first_cause(error: BaseException) -> BaseException:
    """Return the cause of an error, because Dagster's own error only counts its attempts."""
    while error.__cause__ is not None:
        error = error.__cause__
    return error


def _same(rows: int, place: str) -> None:
    if rows != _ROWS.num_rows:
        raise CommandError(f"{place}: {rows} of {_ROWS.num_rows} rows were there after writing")


SECONDS = 60.0
"""Longest time of a check: servers that respond do so within seconds."""


@dataclass(frozen=True, kw_only=True)
class Check:
    """A check of `tidemark doctor`, which prints one line for it.

    Attributes:
        name: the beginning of its line.
        run: returns the good result in a few words; raises the mistake.
        uses: the settings to mend when it never ends.
        seconds: its longest time.
    """

    name: str
    run: Callable[[], str]
    uses: str = ""
    seconds: float = SECONDS

    def passes(self) -> bool:
        """Print the line of the check, or one for each mistake; return whether there is none."""
        outcome: SimpleQueue[tuple[bool, Sequence[str]]] = SimpleQueue()
        # A thread that the end of the process does not wait for: libraries wait without end for a
        # server that accepts a connection and sends nothing.
        Thread(target=copy_context().run, args=(self._put, outcome), daemon=True).start()
        try:
            is_right, lines = outcome.get(timeout=self.seconds)
        except Empty:
            is_right = False
            where = self.uses or "this machine"
            lines = [f"no response within {self.seconds:g} s; check {where}"]
        for line in lines:
            typer.echo(f"{'ok   ' if is_right else 'FAIL '} {self.name:8} {line}")
        return is_right

    def _put(self, outcome: SimpleQueue[tuple[bool, Sequence[str]]]) -> None:
        try:
            outcome.put((True, [self.run()]))
        except typer.BadParameter as error:
            outcome.put((False, [error.message]))
        except MistakesError as error:
            outcome.put((False, [" ".join(mistake.split()) for mistake in error.mistakes]))
        except Exception as error:
            outcome.put((False, [one_line(error)]))
