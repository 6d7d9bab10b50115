"""A Java on which Spark does not run is named before Spark starts."""

from pathlib import Path

import pytest

from spark.session import engine
from spark.session.configuration import SparkResource, require_java
from spark.session.reaching import UnreachableError
from tidemark.lake.catalog_config import CatalogConfig
from tidemark.settings.home import Home
from tidemark.settings.sections import DEFAULT_SPARK


def java_home(folder: Path, prints: str) -> str:
    """Make a folder of a Java that prints a version."""
    (folder / "bin").mkdir(parents=True)
    java = folder / "bin" / "java"
    java.write_text(f"#!/bin/sh\necho '{prints}' >&2\n")
    java.chmod(0o755)
    return str(folder)


def test_a_missing_java_is_reported_at_once(tmp_path, monkeypatch):
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(UnreachableError, match=r"no java .* install a JDK of Java 17 to 23"):
        _ = SparkResource(spark_config={"spark.master": "local[1]"}).spark_session


@pytest.mark.parametrize("version", ["17.0.15", "21.0.7", "23"])
def test_spark_runs_on_these(tmp_path, monkeypatch, version):
    monkeypatch.setenv("JAVA_HOME", java_home(tmp_path, f'openjdk version "{version}"'))
    require_java()


@pytest.mark.parametrize(
    ("prints", "named"),
    [
        ('openjdk version "25.0.3" 2026-04-21 LTS', "Java 25"),
        ('openjdk version "24" 2025-03-18', "Java 24"),
        ('openjdk version "11.0.27" 2025-04-15', "Java 11"),
        ('java version "1.8.0_292"', "Java 8"),
        ("command not found", "no Java of a known version"),
    ],
)
def test_another_java_is_named_with_the_remedy(tmp_path, monkeypatch, prints, named):
    monkeypatch.setenv("JAVA_HOME", java_home(tmp_path, prints))
    with pytest.raises(UnreachableError, match=f"java is {named}, on which .* with JAVA_HOME"):
        require_java()


def test_an_engine_does_not_start_on_another_java(tmp_path, monkeypatch):
    monkeypatch.setenv("JAVA_HOME", java_home(tmp_path / "java", 'openjdk version "25.0.3"'))
    home = Home.of(tmp_path / "home")
    with pytest.raises(UnreachableError, match="Java 25"):
        engine.foreground(home, CatalogConfig.of(home), DEFAULT_SPARK, 15002)
    with pytest.raises(engine.EngineError, match="Java 25"):
        engine.up(home, CatalogConfig.of(home))
