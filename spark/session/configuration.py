"""Configuration of a Spark session: in this process, of a cluster, or of a Connect server."""

import math
import os
import re
import sys
from collections.abc import Mapping
from contextlib import nullcontext

from dagster_pyspark import LazyPySparkResource
from pydantic import PrivateAttr
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from spark.session.packages import fetched_once, jars_config
from spark.session.reaching import (
    UnreachableError,
    explain_refused_token,
    limit_retries,
    reach,
    reach_master,
    silence_connect_log,
)
from spark.tuning import IN_ONE_PART
from tidemark.host.processes import java_tool, java_version
from tidemark.lake.catalog import NAME
from tidemark.lake.catalog_config import CatalogConfig
from tidemark.settings.home import Home
from tidemark.settings.sections import DEFAULT_SPARK, SparkSettings

FEW_ROWS, MANY_ROWS = 5_000, 200_000
"""Largest number of rows of a small window, and of one that is not large."""

TASK_ROWS = 50_000
"""Rows that one task computes in about the time in which a plan of a few tasks starts."""

SMALL = {
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.autoBroadcastJoinThreshold": "-1",
    "spark.sql.constraintPropagation.enabled": "false",
}
LARGE = {
    "spark.sql.adaptive.enabled": "true",
    "spark.sql.autoBroadcastJoinThreshold": "10MB",
    "spark.sql.constraintPropagation.enabled": "true",
}

COMPILED = {
    "spark.sql.codegen.wholeStage": "true",
    # Java interprets longer methods for ever; Spark then splits them where it can.
    "spark.sql.codegen.hugeMethodLimit": "8000",
    "spark.sql.codegen.factoryMode": "FALLBACK",
    "spark.sql.subexpressionElimination.enabled": "true",
}
INTERPRETED = {
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.subexpressionElimination.enabled": "false",
}

LEAVES = "spark.sql.leafNodeDefaultParallelism"
"""Setting of the number of parts into which Spark cuts rows from Python."""


def config_for(rows: int, slots: int) -> dict[str, str]:
    """Return the settings of a session that works on about so many rows of offsets.

    Args:
        rows: of the window.
        slots: how many tasks the Spark runs at a time.
    """
    parts = str(partitions(rows, slots))
    return (
        (LARGE if rows > MANY_ROWS else SMALL)
        | (COMPILED if rows > FEW_ROWS else INTERPRETED)
        | {"spark.sql.shuffle.partitions": parts, LEAVES: parts}
    )


def partitions(rows: int, slots: int) -> int:
    """Return the number of parts of a computation on so many rows.

    Few rows are one part on any cluster, because a shuffle costs more than it gains. Many rows are
    at least one part per slot, and more parts with more rows; adaptive planning joins small ones.

    Args:
        rows: about how many rows of offsets.
        slots: how many tasks the Spark runs at a time.
    """
    parts = max(1, math.ceil(rows / TASK_ROWS))
    return max(parts, slots) if rows > MANY_ROWS else min(parts, max(slots, 1))


def password_file(home: Home, catalog: CatalogConfig) -> dict[str, str]:
    """Write the password of the catalog's address, and return the variable that names the file.

    Without a password in the address the variable stays as the environment has it: PostgreSQL's
    drivers for Java and Python both read the file that ``PGPASSFILE`` names.
    """
    if catalog.password is None:
        return {}
    home.make()
    home.engine.mkdir(exist_ok=True)
    file = home.engine / "pgpass"
    file.unlink(missing_ok=True)
    file.touch(mode=0o600)
    file.write_text(catalog.password + "\n")
    return {"PGPASSFILE": str(file)}


OLDEST, NEWEST = 17, 23
"""Spark 4.1 is compiled for Java 17. When it starts, Hadoop's `UserGroupInformation` calls
`javax.security.auth.Subject.getSubject`, which throws from Java 24 on."""

REMEDY = f"install a JDK of Java {OLDEST} to {NEWEST}, or name the one there is with JAVA_HOME"


def require_java() -> None:
    """Check that Spark runs on the Java that it will find.

    Raises:
        UnreachableError: there is none, or Spark does not run on it.
    """
    path = java_tool("java")
    if path is None:
        raise UnreachableError(f"no java on PATH or in JAVA_HOME: {REMEDY}")
    version = java_version(path)
    if version is None or not OLDEST <= version <= NEWEST:
        shown = f"Java {version}" if version else "no Java of a known version"
        raise UnreachableError(f"{path} is {shown}, on which Spark does not run: {REMEDY}")


LOCAL_MASTER = "local[*]"

ON_THIS_MACHINE = {
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
}
"""Addresses of a driver with a local master. Executors elsewhere must reach the driver, at the
address in ``TIDEMARK_DRIVER_HOST``, ``spark-defaults.conf`` or ``SPARK_LOCAL_IP``."""

JAVA_OPTIONS = (
    # Iceberg plans a scan in a pool and checks every 10 ms whether it is done; a query here has
    # dozens of scans of few manifests each, planned within a millisecond or two.
    "-Diceberg.scan.plan-in-worker-pool=false",
    # An hour of ticks fills more than half of the default with compiled code.
    "-XX:ReservedCodeCacheSize=512m",
)
COMPILER = " ".join(
    (
        "-XX:Tier4InvocationThreshold=50000",
        "-XX:Tier4MinInvocationThreshold=6000",
        "-XX:Tier4CompileThreshold=150000",
        "-XX:Tier4BackEdgeThreshold=400000",
    )
)
"""Start of Java's second compiler ten times later than by default. By default it takes half of the
processor time of an engine's first dozens of ticks; without it the loops over a backfill's rows
take 1.6 times as long. It is not set where the environment chooses."""

COLLECTOR = "-XX:+UseParallelGC"
"""The garbage collector: short pauses do not matter here, and Java's default keeps a core busy with
marking. It is not set where the environment sets one, because Java refuses to start with two."""

YOUNG = "-XX:MaxNewSize=192m"
"""The largest young generation. By default it grows to 700 MB and stays. After one tick of 1,600
group queues an engine had 1.29 GB, and 0.84 with this and fewer arenas of malloc, for the same
processor time. It is not set where the environment chooses."""

JAVA_OPTION_VARIABLES = (
    "JAVA_TOOL_OPTIONS",
    "JDK_JAVA_OPTIONS",
    "_JAVA_OPTIONS",
    "SPARK_SUBMIT_OPTS",
)
"""Variables of the environment that give options to every Java."""


def _of_each_session(catalog: CatalogConfig) -> dict[str, str]:
    """Return the settings of each session, of windows of any size: catalog, time zone, ANSI mode.

    A remote engine may have others.
    """
    prefix = f"spark.sql.catalog.{NAME}"
    return {
        "spark.sql.defaultCatalog": NAME,
        prefix: "org.apache.iceberg.spark.SparkCatalog",
        **{f"{prefix}.{name}": value for name, value in catalog.spark.items()},
        # Another process (PyIceberg, another run) writes these tables too.
        f"{prefix}.cache-enabled": "false",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.ansi.enabled": "true",
        # Rows that one computation has brought together by their queue stay together in joins by
        # snapshot and queue; the default exchanges them once more, by all columns of the join.
        "spark.sql.requireAllClusterKeysForCoPartition": "false",
        # From the default of 128 groups on, less than a snapshot has, an aggregation that collects
        # sorts all rows. A task has a few times `TASK_ROWS`, whose groups fit into memory.
        "spark.sql.objectHashAggregate.sortBased.fallbackThreshold": "200000",
        # Spark describes a plan in a text for its pages at the start, and again whenever it adapts
        # it: 200,000 characters of a large one, in 50 ms. Nobody reads them.
        "spark.sql.maxPlanStringLength": "5000",
        # Without it Spark compresses tables made by PyIceberg by gzip, the default of old tables.
        "spark.sql.iceberg.compression-codec": "zstd",
    }


def java_options(environment: Mapping[str, str]) -> list[str]:
    """Return the options of a driver's Java."""
    options = " ".join(environment.get(name, "") for name in JAVA_OPTION_VARIABLES)
    chosen = [
        option
        for option, choice in (
            (COLLECTOR, r"-XX:\+Use\w+GC\b"),
            (COMPILER, "-XX:Tier"),
            (YOUNG, r"-Xmn|-XX:(Max)?NewSize"),
        )
        if not re.search(choice, options)
    ]
    return [*JAVA_OPTIONS, *chosen]


def driver_config(
    catalog: CatalogConfig, settings: SparkSettings = DEFAULT_SPARK
) -> dict[str, str]:
    """Return the configuration of a Spark driver, which it needs before it starts.

    Args:
        catalog: where the tables are.
        settings: its master, memory and jars.

    Raises:
        SettingsError: the folder of jars lacks one.
    """
    master = settings.master or LOCAL_MASTER
    elsewhere = {"spark.driver.host": settings.driver_host} if settings.driver_host else {}
    return {
        **_of_each_session(catalog),
        "spark.master": master,
        **(ON_THIS_MACHINE if master.startswith("local") else elsewhere),
        **jars_config(catalog.drivers, settings.jars),
        "spark.sql.extensions": (
            "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions"
        ),
        # The default of 100 is less than the classes of a tick: an engine would compile them again
        # at every tick.
        "spark.sql.codegen.cache.maxEntries": "10000",
        # Without this every new column walks the stack for the line that made it and sends it.
        "spark.python.sql.dataFrameDebugging.enabled": "false",
        "spark.driver.memory": settings.driver_memory,
        "spark.driver.extraJavaOptions": " ".join(java_options(os.environ)),
        # Each sort and aggregation takes at least a page, which is cleared; the default is 32 MB.
        "spark.buffer.pageSize": "2m",
        "spark.ui.enabled": "false",
        # By default Spark keeps the last 1000 queries for its pages, which take 100 MB.
        "spark.sql.ui.retainedExecutions": "100",
        "spark.ui.showConsoleProgress": "false",
        "spark.log.level": "ERROR",
    }


def session_config(
    catalog: CatalogConfig,
    *,
    remote: str | None = None,
    settings: SparkSettings = DEFAULT_SPARK,
) -> dict[str, str]:
    """Return the configuration of one session, for `SparkResource`.

    Args:
        catalog: where the tables are.
        remote: a Spark Connect address, ``sc://HOST:PORT``, of a server that has the catalog's
            packages.
        settings: of a driver in this process, where no remote is given.
    """
    if remote:
        return {"spark.remote": remote, **_of_each_session(catalog)}
    return driver_config(catalog, settings)


class SparkResource(LazyPySparkResource):
    """The Spark session of a run, opened when an asset first needs it."""

    _set: Mapping[str, str] = PrivateAttr(default_factory=dict)
    _reached: bool = PrivateAttr(default=False)
    _slots: int | None = PrivateAttr(default=None)

    @property
    def spark_session(self) -> SparkSession:
        """The session; fails quickly when a remote engine is gone.

        Raises:
            UnreachableError: the remote engine does not listen, or a local one finds no Java that
                Spark runs on.
        """
        if not self._reached:
            remote = self.spark_config.get("spark.remote")
            if remote:
                reach(remote)
            else:
                require_java()
                reach_master(self.spark_config.get("spark.master", ""))
            self._reached = True
        # Otherwise a Spark of this process takes the first Python on the path, maybe another one.
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
        packages = self.spark_config.get("spark.jars.packages")
        with (
            fetched_once(packages.split(",")) if packages else nullcontext(),
            explain_refused_token(),
        ):
            return super().spark_session

    def _init_session(self) -> None:
        """Open the session, once; one of a server limits its retries before its first request."""
        remote = self.spark_config.get("spark.remote")
        if remote and self._spark_session is None:
            silence_connect_log()
            limit_retries(SparkSession.builder.remote(remote).getOrCreate())
        super()._init_session()

    def session_for(self, rows: int) -> SparkSession:
        """Return the session, set for work on about that many rows of offsets.

        Planning again between the stages of a plan takes longer than a tick's thousands of rows
        take, and making code of expressions longer than some hundreds do.
        """
        session = self.spark_session
        if rows > TASK_ROWS and self._slots is None:
            self._slots = _slots(session)
        slots = self._slots or 1
        IN_ONE_PART.set(partitions(rows, slots) == 1 and rows <= MANY_ROWS)
        config = config_for(rows, slots)
        for name, value in config.items():
            if self._set.get(name) != value:  # each is a round trip
                session.conf.set(name, value)
        self._set = config
        return session


def _slots(session: SparkSession) -> int:
    """Return how many tasks a Spark runs at a time; a Connect client sees it only in a plan."""
    session.conf.unset(LEAVES)
    parts = session.range(1 << 20).select(F.spark_partition_id().alias("part"))
    last = parts.agg(F.max("part")).collect()[0][0]
    return int(last) + 1


def open_session(config: Mapping[str, str]) -> SparkSession:
    """Open a session outside Dagster, for tests and benchmarks; the caller stops it."""
    return SparkResource(spark_config=dict(config)).spark_session
