"""How a Spark session is configured: one in this process, a cluster's, or a Connect server's."""

import math
import os
import re
import shutil
import socket
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from dagster_pyspark import LazyPySparkResource
from pydantic import PrivateAttr
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from lake.catalog import NAME
from lake.catalog_config import CatalogConfig
from settings.spark import DEFAULT_SPARK, SparkSettings
from spark.session.packages import fetched_once, jars_config

LOCAL_MASTER = "local[*]"

FEW_ROWS, MANY_ROWS = 5_000, 200_000
"""Largest number of rows of a small window, and of one that is not large."""

TASK_ROWS = 50_000
"""Rows that one task computes in about the time in which a plan of a few tasks starts."""

SMALL = {
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.objectHashAggregate.sortBased.fallbackThreshold": "128",
    "spark.sql.autoBroadcastJoinThreshold": "-1",
    "spark.sql.constraintPropagation.enabled": "false",
}
LARGE = {
    "spark.sql.adaptive.enabled": "true",
    # Spark's default of 128 groups of an aggregation that collects is less than one snapshot's;
    # from there on it sorts all rows. A task has `TASK_ROWS`, which fit into memory.
    "spark.sql.objectHashAggregate.sortBased.fallbackThreshold": "200000",
    "spark.sql.autoBroadcastJoinThreshold": "10MB",
    "spark.sql.constraintPropagation.enabled": "true",
}

ON_THIS_MACHINE = {
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
}
"""Of a local master only: executors elsewhere must reach the driver, at the address of
``TIDEMARK_DRIVER_HOST``, or that ``spark-defaults.conf`` or ``SPARK_LOCAL_IP`` sets."""

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
"""Java's second compiler, ten times later than by default. By default half of the processor time of
an engine's first dozens of ticks is its; without it the loops over a backfill's rows take 1.6 times
as long. It is not set where the environment chooses."""

COLLECTOR = "-XX:+UseParallelGC"
"""The garbage collector: short pauses do not matter here, and Java's default keeps a core busy with
marking. It is not set where the environment sets one, because Java refuses to start with two."""

JAVA_OPTION_VARIABLES = (
    "JAVA_TOOL_OPTIONS",
    "JDK_JAVA_OPTIONS",
    "_JAVA_OPTIONS",
    "SPARK_SUBMIT_OPTS",
)
"""Variables of the environment that give options to every Java."""

LEAVES = "spark.sql.leafNodeDefaultParallelism"
"""Into how many parts Spark cuts rows that come from Python."""

CONNECT_PORT = 15002
"""Default port of a Spark Connect server."""

REACH_SECONDS = 10

ENGINE_RETRIES = 3
"""Reconnections before a lost engine is an error; pyspark's own 15 wait for ten minutes."""


def _of_each_session(catalog: CatalogConfig) -> dict[str, str]:
    """Return the settings of each session: catalog, time zone and ANSI mode.

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
    }


def java_options(environment: Mapping[str, str]) -> list[str]:
    """Return the options of a driver's Java."""
    options = " ".join(environment.get(name, "") for name in JAVA_OPTION_VARIABLES)
    chosen = [
        option
        for option, choice in ((COLLECTOR, r"-XX:\+Use\w+GC\b"), (COMPILER, "-XX:Tier"))
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
        # The hundred of the default do not hold one tick's: an engine would compile the same again
        # at every tick.
        "spark.sql.codegen.cache.maxEntries": "10000",
        # Without this every new column walks the stack for the line that made it and sends it.
        "spark.python.sql.dataFrameDebugging.enabled": "false",
        "spark.driver.memory": settings.driver_memory,
        "spark.driver.extraJavaOptions": " ".join(java_options(os.environ)),
        # Each sort and aggregation takes at least a page, which is cleared; the default is 32 MB.
        "spark.buffer.pageSize": "2m",
        "spark.ui.enabled": "false",
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


class UnreachableError(Exception):
    """No Spark can be reached; the text names the address and the remedy."""


def _where_java_is() -> str | None:
    """Return the folder of ``JAVA_HOME`` in which Spark finds Java."""
    home = os.environ.get("JAVA_HOME")
    return str(Path(home) / "bin") if home else None


def reach(remote: str) -> None:
    """Check that a Spark Connect server listens; pyspark itself would try for ten minutes.

    Raises:
        UnreachableError: nothing does.
    """
    address = urlsplit(remote)
    try:
        place = (address.hostname or "", address.port or CONNECT_PORT)
        socket.create_connection(place, REACH_SECONDS).close()
    except (OSError, ValueError) as error:
        raise UnreachableError(
            f"no Spark Connect server at {remote.split('/;')[0]} ({error}): start it "
            "(tidemark engine up), or unset TIDEMARK_SPARK_REMOTE"
        ) from error
    if address.hostname != "localhost" and os.environ.get("SPARK_CONNECT_AUTHENTICATE_TOKEN"):
        _reach_by_tls(remote)


def _reach_by_tls(remote: str) -> None:
    """Check that a server ends TLS: to another host than ``localhost`` pyspark sends no token else.

    Raises:
        UnreachableError: it does not.
    """
    import grpc
    from pyspark.sql.connect.client.core import DefaultChannelBuilder

    with DefaultChannelBuilder(remote).toChannel() as channel:
        try:
            grpc.channel_ready_future(channel).result(REACH_SECONDS)
        except grpc.FutureTimeoutError:
            raise UnreachableError(
                f"{remote.split('/;')[0]} answers without TLS, or with a certificate that this "
                "machine does not trust, and a token goes in the clear only to sc://localhost: put "
                "a proxy that ends TLS before the server, and name its authority in "
                "GRPC_DEFAULT_SSL_ROOTS_FILE_PATH"
            ) from None


class SparkResource(LazyPySparkResource):
    """The Spark session of a run, opened when an asset first needs it."""

    _set: Mapping[str, str] = PrivateAttr(default_factory=dict)
    _reached: bool = PrivateAttr(default=False)
    _slots: int | None = PrivateAttr(default=None)

    @property
    def spark_session(self) -> SparkSession:
        """The session; fails quickly when a remote engine is gone.

        Raises:
            UnreachableError: nothing listens where a remote engine should, or there is no Java for
                one of our own.
        """
        if not self._reached:
            remote = self.spark_config.get("spark.remote")
            if remote:
                reach(remote)
            elif not shutil.which("java", path=_where_java_is()):
                raise UnreachableError(
                    "no java on PATH or in JAVA_HOME: install a JDK 17 or newer, or name the one "
                    "there is with JAVA_HOME"
                )
            self._reached = True
        # Otherwise a Spark of this process takes the first Python on the path, maybe another one.
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
        packages = self.spark_config.get("spark.jars.packages")
        with fetched_once(packages.split(",")) if packages else nullcontext(), admitted():
            return impatient(super().spark_session)

    def session_for(self, rows: int) -> SparkSession:
        """The session, set for work on about that many rows of offsets.

        Planning again between the stages of a plan takes longer than a tick's thousands of rows
        take, and making code of expressions longer than some hundreds do.
        """
        session = self.spark_session
        if rows > TASK_ROWS and self._slots is None:
            self._slots = _slots(session)
        parts = str(partitions(rows, self._slots or 1))
        config = (
            (LARGE if rows > MANY_ROWS else SMALL)
            | (COMPILED if rows > FEW_ROWS else INTERPRETED)
            | {"spark.sql.shuffle.partitions": parts, LEAVES: parts}
        )
        for name, value in config.items():
            if self._set.get(name) != value:  # each is a round trip
                session.conf.set(name, value)
        self._set = config
        return session


def partitions(rows: int, slots: int) -> int:
    """Return into how many parts a computation on so many rows is cut.

    Few rows are one part, whatever the cluster: a shuffle costs more than it wins. Many are at
    least a part per slot, and more where there are more rows; adaptive planning joins small ones.

    Args:
        rows: about how many rows of offsets.
        slots: how many tasks the Spark runs at a time.
    """
    parts = max(1, math.ceil(rows / TASK_ROWS))
    return max(parts, slots) if rows > MANY_ROWS else min(parts, max(slots, 1))


def _slots(session: SparkSession) -> int:
    """Return how many tasks a Spark runs at a time; a Connect client sees it only in a plan."""
    session.conf.unset(LEAVES)
    parts = session.range(1 << 20).select(F.spark_partition_id().alias("part"))
    last = parts.agg(F.max("part")).collect()[0][0]
    return int(last) + 1


@contextmanager
def admitted() -> Iterator[None]:
    """Turn what a server says of a wrong token, or of none, into one line that says what to do.

    Raises:
        UnreachableError: it refused the token, or there was none.
    """
    try:
        yield
    except Exception as error:
        if "authentication token" not in str(error):
            raise
        raise UnreachableError(
            "the Spark Connect server refused the token: set SPARK_CONNECT_AUTHENTICATE_TOKEN to "
            "the one that it was started with"
        ) from None


def impatient(session: Any) -> Any:
    """Make a Connect session fail within seconds when its server is gone; return the session."""
    client = getattr(session, "client", None) if is_remote(session) else None
    if client is not None:
        from pyspark.sql.connect.client.retries import DefaultPolicy

        client.set_retry_policies([DefaultPolicy(max_retries=ENGINE_RETRIES)])
    return session


def is_remote(session: Any) -> bool:
    """Return whether the session belongs to a Spark Connect server."""
    return type(session).__module__.startswith("pyspark.sql.connect")


def open_session(config: Mapping[str, str]) -> SparkSession:
    """Open a session outside Dagster, for tests and benchmarks; the caller stops it."""
    return SparkResource(spark_config=dict(config)).spark_session
