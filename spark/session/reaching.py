"""Reaching a Spark Connect server, and one line about why it cannot be reached."""

import logging
import os
import socket
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit

CONNECT_PORT = 15002
"""Default port of a Spark Connect server."""

CONNECT_LOG_LEVEL = "SPARK_CONNECT_LOG_LEVEL"
"""The variable by which pyspark logs the requests of a Connect session."""

STANDALONE = "spark://"

REACH_SECONDS = 10

ENGINE_RETRIES = 3
"""Reconnections before a lost engine is an error; pyspark's own 15 wait for ten minutes."""


class UnreachableError(Exception):
    """No Spark can be reached; the text names the address and the remedy."""


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


def reach_master(master: str) -> None:
    """Check that a master of a standalone cluster listens; a driver would try for a minute.

    Other masters are left to Spark.

    Raises:
        UnreachableError: none of those named does.
    """
    if not master.startswith(STANDALONE):
        return
    failures = []
    for place in master.removeprefix(STANDALONE).split(","):
        host, _, port = place.rpartition(":")
        try:
            socket.create_connection((host.strip("[]"), int(port)), REACH_SECONDS).close()
        except (OSError, ValueError) as error:
            failures.append(f"{place}: {error}")
        else:
            return
    raise UnreachableError(
        f"no Spark master at {master} ({'; '.join(failures)}): start it, or mend "
        "TIDEMARK_SPARK_MASTER"
    )


def _reach_by_tls(remote: str) -> None:
    """Check that a server uses TLS: without TLS, pyspark sends a token only to ``localhost``.

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


@contextmanager
def explain_refused_token() -> Iterator[None]:
    """Turn a server's error about a wrong or missing token into one line with the remedy.

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


def silence_connect_log() -> None:
    """Silence pyspark's log of a Connect session's errors, unless the environment enables it.

    The caller reports the error in one line. pyspark disables its logger, but Dagster enables all
    loggers. A failure of Spark was then 30,000 characters in front of that line. When its retries
    end, pyspark also warns before it raises the error.
    """
    if CONNECT_LOG_LEVEL not in os.environ:
        logging.getLogger("pyspark.sql.connect.logging").setLevel(logging.CRITICAL)
        warnings.filterwarnings("ignore", r"\[RETRIES_EXCEEDED\]")


def limit_retries(session: Any) -> None:
    """Make a Connect session fail within seconds when its server is gone."""
    from pyspark.sql.connect.client.retries import DefaultPolicy

    session.client.set_retry_policies([DefaultPolicy(max_retries=ENGINE_RETRIES)])
