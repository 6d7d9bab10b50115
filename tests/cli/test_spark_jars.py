"""The jars of Spark in a folder: fetched once, and none that is not the pinned one."""

import hashlib
from pathlib import Path

import pytest

from spark.session import packages
from spark.session.packages import CACHE, DRIVERS, ICEBERG, SHA256, damaged, jar_name
from tests.support.commands import output_of
from tidemark.settings.home import Home

SMALLEST = DRIVERS["postgresql"]


@pytest.fixture
def home(tmp_path):
    return Home.of(tmp_path / "home")


@pytest.fixture
def one_jar(monkeypatch):
    """One jar is pinned, the smallest, so that fetching it is cheap."""
    for name in list(SHA256):
        if name != SMALLEST:
            monkeypatch.delitem(packages.SHA256, name)


def test_every_package_has_a_checksum():
    assert SHA256.keys() == {ICEBERG, *DRIVERS.values()}


def test_what_spark_fetched_is_what_is_pinned():
    number = 0
    for package, expected in SHA256.items():
        group = package.split(":")[0]
        jar = Path.home() / CACHE / "jars" / f"{group}_{jar_name(package)}"
        if jar.is_file():
            number += 1
            assert hashlib.sha256(jar.read_bytes()).hexdigest() == expected, jar
    if not number:
        pytest.skip("Spark has fetched no jar on this machine yet")


@pytest.mark.slow
@pytest.mark.usefixtures("one_jar")
def test_a_damaged_jar_is_fetched_again(home, tmp_path):
    folder = tmp_path / "jars"
    assert output_of(home, "engine", "jars", str(folder)).split() == [SMALLEST]
    jar = folder / jar_name(SMALLEST)
    size = jar.stat().st_size
    jar.write_bytes(b"PK")
    assert [*damaged(folder)] == [jar]
    output_of(home, "engine", "jars", str(folder))
    assert jar.stat().st_size == size
    assert not damaged(folder)


@pytest.mark.slow
@pytest.mark.usefixtures("one_jar")
def test_another_jar_than_the_pinned_is_an_error(home, tmp_path, monkeypatch):
    monkeypatch.setitem(packages.SHA256, SMALLEST, "0" * 64)
    line = output_of(home, "engine", "jars", str(tmp_path / "jars"), code=1)
    assert "not the pinned 000" in line
    assert line.count("\n") == 1


def test_the_engine_of_a_container_needs_a_token(home):
    line = output_of(home, "engine", "run", code=1)
    assert "set SPARK_CONNECT_AUTHENTICATE_TOKEN" in line
