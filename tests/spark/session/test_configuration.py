"""Configuration of a Spark driver before it starts."""

import pytest

from spark.session.configuration import COLLECTOR, COMPILER, YOUNG, driver_config, java_options
from tidemark.lake.catalog_config import CatalogConfig
from tidemark.settings.home import Home
from tidemark.settings.sections import SparkSettings


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
    ("environment", "chosen"),
    [
        ({}, True),
        ({"JAVA_TOOL_OPTIONS": "-Xmn1g"}, False),
        ({"_JAVA_OPTIONS": "-XX:NewSize=1g"}, False),
    ],
)
def test_young_generation_is_that_of_the_environment(environment, chosen):
    assert (YOUNG in java_options(environment)) == chosen
