"""Sparks that start together on a machine that has none of their jars yet."""

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from spark.session.packages import CACHE, fetched_once, jars_config, packages_of
from tidemark.settings.basics import SettingsError

JARS = (
    "org.apache.iceberg_iceberg-spark-runtime-4.1_2.13-1.12.0.jar",
    "org.xerial_sqlite-jdbc-3.50.3.0.jar",
)
"""As Spark names them."""

PACKAGES = packages_of(["sqlite"])


@pytest.fixture
def jars(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where Spark keeps them in the home of a user who never started it."""
    monkeypatch.setenv("HOME", str(tmp_path))
    return tmp_path / CACHE / "jars"


def most_at_once(starts: int) -> int:
    """How many of some starts, each of a moment, were under way at the same time."""
    lock, under_way, most = threading.Lock(), 0, 0

    def start(_: int) -> None:
        nonlocal under_way, most
        with fetched_once(PACKAGES):
            with lock:
                under_way += 1
                most = max(most, under_way)
            time.sleep(0.2)
            with lock:
                under_way -= 1

    with ThreadPoolExecutor(starts) as pool:
        list(pool.map(start, range(starts)))
    return most


def test_jars_come_from_a_folder_that_has_them_all(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"TIDEMARK_SPARK_JARS: .*iceberg-spark-runtime"):
        jars_config(["sqlite"], str(tmp_path))
    for jar in ("iceberg-spark-runtime-4.1_2.13-1.12.0.jar", "sqlite-jdbc-3.50.3.0.jar"):
        (tmp_path / jar).touch()
    (text,) = jars_config(["sqlite"], str(tmp_path)).values()
    assert [Path(jar).name for jar in text.split(",")] == sorted(
        path.name for path in tmp_path.iterdir()
    )


@pytest.mark.slow
def test_one_fetches_while_the_others_wait(jars: Path) -> None:
    assert most_at_once(3) == 1


def test_nobody_waits_when_all_are_there(jars: Path) -> None:
    jars.mkdir(parents=True)
    assert len(JARS) == len(PACKAGES)
    for name in JARS:
        (jars / name).touch()
    assert most_at_once(3) == 3


def test_one_jar_of_them_is_not_enough(jars: Path) -> None:
    jars.mkdir(parents=True)
    (jars / JARS[0]).touch()
    assert most_at_once(2) == 1
