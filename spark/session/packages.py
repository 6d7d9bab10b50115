"""The jars that Spark needs besides its own: versions, checksums and sources.

Spark fetches them from Maven Central the first time it starts on a machine, unless a folder has
them. They go into a cache that all Sparks of a user share. Ivy, which fills it, lets several fill
it at once, and then all of them fail: two Sparks that start together on a fresh machine end with
``Downloaded file size (0) doesn't match``.
"""

import hashlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock

from tidemark.settings.basics import SettingsError

ICEBERG = "org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:1.12.0"

DRIVERS = {
    "sqlite": "org.xerial:sqlite-jdbc:3.50.3.0",
    "postgresql": "org.postgresql:postgresql:42.7.14",
    "s3": "org.apache.iceberg:iceberg-aws-bundle:1.12.0",
}
"""Further packages of Spark, by the kind of catalog or store that needs each."""

SHA256 = {
    ICEBERG: "3123c3798af642dd537230923548e013ef41cc28b6626e5225808cf5670a0f82",
    DRIVERS["sqlite"]: "a3f53a2aa15ae9425a9e793bbe9c8e5288febeb4b65ef5c1a4e80d4c2045cf08",
    DRIVERS["postgresql"]: "73914527305a40cce504b0d3d90b23caf565136912d607ae8ae7c5895512332c",
    DRIVERS["s3"]: "dd7e49ffa4ac9b215bed846581991259e3aec9bb2fa08d6cec029c46cd66d957",
}
"""The checksum of each jar, by its package."""

CACHE = ".ivy2.5.2"
"""Folder of Spark 4.1 for them, in the user's home (`MavenUtils`)."""


def packages_of(drivers: Iterable[str]) -> tuple[str, ...]:
    """Return the packages that Spark needs besides its own jars.

    Args:
        drivers: the drivers of the catalog, as `CatalogConfig` names them.
    """
    return (ICEBERG, *(DRIVERS[driver] for driver in drivers))


def jars_config(drivers: Iterable[str], folder: str = "") -> dict[str, str]:
    """Return settings by which Spark finds these packages: in a folder, or in Maven's repository.

    Args:
        drivers: the drivers of the catalog, as `CatalogConfig` names them.
        folder: a folder with one jar of each; empty to fetch them.

    Raises:
        SettingsError: the folder lacks some.
    """
    packages = packages_of(drivers)
    if not folder:
        return {"spark.jars.packages": ",".join(packages)}
    jars, missing = [], []
    for package in packages:
        jar = Path(folder).expanduser().absolute() / jar_name(package)
        (jars if jar.is_file() else missing).append(str(jar))
    if missing:
        raise SettingsError(f"TIDEMARK_SPARK_JARS: {jar} is not there" for jar in missing)
    return {"spark.jars": ",".join(jars)}


def jar_name(package: str) -> str:
    """Return the name of a package's jar in a folder of jars."""
    _, artifact, version = package.split(":")
    return f"{artifact}-{version}.jar"


def damaged(folder: Path) -> dict[Path, str]:
    """Return the jars that a folder lacks or that are not the pinned ones, with a line of each.

    A jar that is not the pinned one runs inside every computation, so it must not be used.
    """
    mistakes: dict[Path, str] = {}
    for package, expected in SHA256.items():
        jar = folder / jar_name(package)
        if not jar.is_file():
            mistakes[jar] = f"{jar} is not there"
            continue
        with jar.open("rb") as file:
            text = hashlib.file_digest(file, "sha256").hexdigest()
        if text != expected:
            mistakes[jar] = f"{jar} has the checksum {text}, not the pinned {expected}"
    return mistakes


@contextmanager
def fetched_once(packages: Iterable[str]) -> Iterator[None]:
    """Around the start of a Spark: while the jars are not there, one starts after the other."""
    cache = Path.home() / CACHE
    if _are_in(cache, packages):
        yield
        return
    cache.mkdir(parents=True, exist_ok=True)
    with FileLock(cache / "tidemark.lock"):
        yield


def _are_in(cache: Path, packages: Iterable[str]) -> bool:
    jars = ("_".join(package.split(":")[:2]) + "-" + package.split(":")[2] for package in packages)
    return all((cache / "jars" / f"{jar}.jar").is_file() for jar in jars)
