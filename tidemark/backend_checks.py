"""Checks of what a deployment brings: each connects, writes, reads and deletes, for `doctor`."""

import os
import re
from pathlib import PurePath
from uuid import uuid4

import pyarrow as pa
import pyarrow.parquet as pq

from lake.catalog import NAME, Lake
from lake.damaged_files import usable
from lake.landing_places import HEADER, Landing
from settings.environment import Settings
from tidemark.errors import CommandError

_NAMESPACE = "quality"
"""One that every catalog has."""

_UNSET = re.compile(r'environment variable "(\w+)"')
"""How Dagster names a variable of its file that has no value."""

_ROWS = pa.table({"number": pa.array([1, 2, 3], pa.int64())})


def check_catalog(lake: Lake) -> str:
    """Make a table, write to it, read it and drop it; return what was used.

    Raises:
        DamagedError: the catalog or the warehouse does not do that.
    """
    catalog, name = lake.catalog, f"{_NAMESPACE}.doctor_{uuid4().hex}"
    tables = sum(len(catalog.list_tables(each)) for each in catalog.list_namespaces())
    warehouse = lake.config.python["warehouse"]
    with usable(f"the warehouse {warehouse}"):
        made = catalog.create_table(name, _ROWS.schema)
        try:
            made.append(_ROWS)
            found = made.scan().to_arrow().num_rows
        finally:
            catalog.purge_table(name)
    _same(found, warehouse)
    return f"{tables} tables in {lake.config.place or lake.home.path}, files in {warehouse}"


def check_landing(landing: Landing) -> str:
    """Write a snapshot's file, read it and delete it; return where.

    Raises:
        OSError: the landing does not do that.
    """
    # A dot in front keeps it out of what is loaded.
    place: PurePath = landing.root / ".doctor" / uuid4().hex
    content = pa.BufferOutputStream()
    pq.write_table(_ROWS, content)
    with landing.writing(place) as unfinished:
        landing.write(unfinished / HEADER, content.getvalue())
    try:
        with landing.open(place / HEADER) as file:
            found = pq.ParquetFile(file).read().num_rows
    finally:
        landing.remove(place)
        landing.remove_empty(place.parent)
    _same(found, str(landing))
    return str(landing)


def check_spark(settings: Settings) -> str:
    """Make a table by the Spark of the settings, write to it, read it and drop it.

    Without a server, an engine or a cluster nothing is started: each run then has a Spark of its
    own.

    Raises:
        CommandError: Spark does not do that.
        UnreachableError: no Spark answers.
    """
    from orchestration.resources import spark_config
    from spark.session.configuration import LOCAL_MASTER, SparkResource

    config = spark_config(settings)
    master = config.get("spark.master", "")
    if "spark.remote" not in config and master.startswith("local"):
        return "not running; ticks start a Spark of their own"
    place = config.get("spark.remote", master).partition("/;")[0]
    session = SparkResource(spark_config=config).session_for(rows=1)
    name = f"{NAME}.{_NAMESPACE}.doctor_{uuid4().hex}"
    session.sql(f"CREATE TABLE {name} (number BIGINT) USING iceberg").collect()
    try:
        session.createDataFrame([(1,), (2,), (3,)], "number BIGINT").writeTo(name).append()
        found = session.table(name).count()
    finally:
        session.sql(f"DROP TABLE {name} PURGE").collect()
    _same(found, place)
    return place if place != LOCAL_MASTER else "in this process"


def check_dagster(settings: Settings) -> str:
    """Write a run to Dagster's storage, read it and delete it; return where.

    Raises:
        CommandError: the storage does not do that.
    """
    import dagster as dg

    from lake.failures import one_line
    from orchestration.instance.files import prepare

    folder, run = prepare(settings.home), dg.DagsterRun(job_name="doctor", run_id=str(uuid4()))
    try:
        with dg.DagsterInstance.get() as instance:
            instance.run_storage.add_run(run)
            found = instance.get_run_by_id(run.run_id)
            instance.delete_run(run.run_id)
            kind = type(instance.run_storage).__name__
    except Exception as error:
        why, advice = one_line(error), f"mend {folder}/dagster.yaml, or the variables that it names"
        if missing := _UNSET.search(str(error)):
            why, advice = f"{missing[1]} is not set", f"{folder}/dagster.yaml names it"
        elif "No module named" in why:
            advice = "install tidemark[postgres], and begin the address with postgresql+psycopg2://"
        raise CommandError(f"Dagster's storage cannot be used: {why}; {advice}") from error
    _same(3 if found else 0, str(folder))
    return f"{kind}, {folder}"


def _same(rows: int, place: str) -> None:
    if rows != _ROWS.num_rows:
        raise CommandError(f"{place}: {rows} of {_ROWS.num_rows} rows were there after writing")


def check_writable(lake: Lake) -> None:
    """Make sure that the home can be written.

    Raises:
        CommandError: it cannot.
    """
    if lake.home.path.exists() and not os.access(lake.home.path, os.W_OK):
        raise CommandError(f"{lake.home.path} cannot be written: ticks keep all they know there")
