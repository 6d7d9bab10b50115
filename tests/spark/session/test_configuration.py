"""How a session is set for the size of its work."""

import socket

import pytest
from pyspark.sql import SparkSession

from lake.catalog_config import CatalogConfig
from settings.home import Home
from settings.spark import SparkSettings
from spark.session.configuration import (
    COLLECTOR,
    COMPILER,
    FEW_ROWS,
    MANY_ROWS,
    TASK_ROWS,
    SparkResource,
    UnreachableError,
    admitted,
    driver_config,
    java_options,
    partitions,
    session_config,
)
from spark.session.engine import TOKEN


@pytest.mark.parametrize(
    ("environment", "chosen"),
    [
        ({}, True),
        ({"JAVA_TOOL_OPTIONS": "-Xss4m -XX:+UseStringDeduplication"}, True),
        ({"JAVA_TOOL_OPTIONS": "-Xss4m -XX:+UseG1GC"}, False),
        ({"SPARK_SUBMIT_OPTS": "-XX:+UseSerialGC -Xss4m"}, False),
    ],
)
def test_java_gets_one_collector_only(environment, chosen):
    assert (COLLECTOR in java_options(environment)) == chosen


@pytest.mark.parametrize(
    ("environment", "chosen"),
    [({}, True), ({"JDK_JAVA_OPTIONS": "-XX:Tier4BackEdgeThreshold=1"}, False)],
)
def test_environment_may_choose_the_compiler(environment, chosen):
    assert (COMPILER in java_options(environment)) == chosen


@pytest.mark.parametrize(
    ("master", "host"), [("", "127.0.0.1"), ("local[2]", "127.0.0.1"), ("spark://a:7077", None)]
)
def test_executors_elsewhere_are_not_sent_to_loopback(tmp_path, master, host):
    config = driver_config(CatalogConfig.of(Home.of(tmp_path)), SparkSettings(master=master))
    assert config.get("spark.driver.host") == host


def test_executors_elsewhere_are_sent_to_the_address_of_the_settings(tmp_path):
    settings = SparkSettings(master="spark://a:7077", driver_host="engine.example")
    config = driver_config(CatalogConfig.of(Home.of(tmp_path)), settings)
    assert config["spark.driver.host"] == "engine.example"


@pytest.mark.parametrize(
    ("rows", "slots", "parts"),
    [
        (0, 8, 1),
        (TASK_ROWS, 8, 1),
        (TASK_ROWS + 1, 8, 2),
        (190_000, 8, 4),
        (190_000, 2, 2),
        (MANY_ROWS + 1, 32, 32),
        (5_000_000, 32, 100),
    ],
)
def test_parts_follow_rows_and_slots(rows, slots, parts):
    assert partitions(rows, slots) == parts


def test_a_missing_spark_is_reported_at_once(tmp_path, monkeypatch):
    with socket.create_server(("127.0.0.1", 0)) as listening:
        remote = f"sc://127.0.0.1:{listening.getsockname()[1]}"
    with pytest.raises(UnreachableError, match=f"no Spark Connect server at {remote} .*refused"):
        _ = SparkResource(spark_config={"spark.remote": f"{remote}/;session_id=x"}).spark_session
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(UnreachableError, match=r"no java .* install a JDK 17"):
        _ = SparkResource(spark_config={"spark.master": "local[1]"}).spark_session


@pytest.mark.spark
def test_few_rows_are_interpreted_and_many_are_compiled(spark, spark_engine, session_home):
    spark_engine.admit()
    config = session_config(CatalogConfig.of(session_home), remote=spark_engine.remote)
    resource = SparkResource(spark_config=config)

    def settings(rows):
        session = resource.session_for(rows)
        return tuple(
            session.conf.get(f"spark.sql.{name}")
            for name in ("codegen.factoryMode", "codegen.wholeStage", "adaptive.enabled")
        )

    try:
        few, more, many, again = map(settings, (FEW_ROWS, FEW_ROWS + 1, MANY_ROWS + 1, 1))
    finally:
        resource.session_for(1)  # the session is that of the other tests
    assert few == again == ("NO_CODEGEN", "false", "false")
    assert more == ("FALLBACK", "true", "false")
    assert many == ("FALLBACK", "true", "true")


@pytest.mark.spark
def test_the_engine_lets_nobody_in_without_its_token(spark, spark_engine, monkeypatch):
    for token in ("", "x"):
        monkeypatch.delenv(TOKEN, raising=False)
        if token:
            monkeypatch.setenv(TOKEN, token)
        with pytest.raises(UnreachableError, match="refused the token"), admitted():
            SparkSession.builder.remote(spark_engine.remote).create().range(1).count()
