"""Errors of a Spark that cannot be reached, or that refuses the token."""

import os
import socket
import subprocess
import sys

import pytest
from pyspark.sql import SparkSession

from spark.session.configuration import SparkResource
from spark.session.engine import TOKEN
from spark.session.reaching import UnreachableError, explain_refused_token, reach_master


def test_a_missing_spark_is_reported_at_once():
    with socket.create_server(("127.0.0.1", 0)) as listening:
        remote = f"sc://127.0.0.1:{listening.getsockname()[1]}"
    with pytest.raises(UnreachableError, match=f"no Spark Connect server at {remote} .*refused"):
        _ = SparkResource(spark_config={"spark.remote": f"{remote}/;session_id=x"}).spark_session


def test_a_master_that_does_not_listen_is_reported_at_once():
    """Spark would try for a minute and end with a stopped context."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
        reach_master(f"spark://127.0.0.1:1,127.0.0.1:{port}")
    for master in (f"spark://127.0.0.1:1,127.0.0.1:{port}", "spark://127.0.0.1"):
        with pytest.raises(UnreachableError, match="or mend TIDEMARK_SPARK_MASTER"):
            _ = SparkResource(spark_config={"spark.master": master}).spark_session


ENDS = """
import socket, threading
from spark.session.configuration import SparkResource

listening = socket.create_server(("127.0.0.1", 0))

def close_each():
    while True:
        listening.accept()[0].close()

threading.Thread(target=close_each, daemon=True).start()
remote = f"sc://localhost:{listening.getsockname()[1]}"
SparkResource(spark_config={"spark.remote": remote, "spark.sql.ansi.enabled": "true"}).spark_session
"""


@pytest.mark.slow
def test_a_spark_that_ends_while_a_session_opens_is_reported_within_seconds():
    """By pyspark's own patience the first request would be repeated for ten minutes."""
    opening = subprocess.run(
        [sys.executable, "-c", ENDS], capture_output=True, text=True, timeout=60, check=False
    )
    assert opening.returncode == 1
    assert "StatusCode.UNAVAILABLE" in opening.stderr
    assert "UserWarning" not in opening.stderr, "the error alone is what a person reads"


@pytest.mark.spark
def test_the_engine_lets_nobody_in_without_its_token(spark, spark_engine, monkeypatch):
    for token in ("", "x"):
        monkeypatch.delenv(TOKEN, raising=False)
        if token:
            monkeypatch.setenv(TOKEN, token)
        with pytest.raises(UnreachableError, match="refused the token"), explain_refused_token():
            SparkSession.builder.remote(spark_engine.remote).create().range(1).count()


FAILS = """
import sys
import pyspark.sql.connect.session, pyspark.sql.connect.logging
import logging.config
from spark.session.configuration import SparkResource

logging.config.dictConfig({"version": 1, "disable_existing_loggers": False})  # as Dagster does
session = SparkResource(spark_config={"spark.remote": sys.argv[1]}).session_for(1)
logging.config.dictConfig({"version": 1, "disable_existing_loggers": False})
try:
    session.sql("SELECT raise_error('x')").collect()
except Exception:
    print("caught")
"""


@pytest.mark.spark
def test_a_failure_of_a_server_is_not_logged_before_its_line(spark_engine):
    failed = subprocess.run(
        [sys.executable, "-c", FAILS, spark_engine.remote],
        capture_output=True,
        text=True,
        timeout=120,
        env=os.environ | {TOKEN: spark_engine.token},
        check=False,
    )
    assert failed.stdout == "caught\n", failed.stderr
    assert "GRPC Error" not in failed.stderr
