"""The jars that Spark fetches from Maven Central the first time it starts on a machine.

They go into a cache that all Sparks of a user share. Ivy, which fills it, lets several fill it at
once, and then all of them fail: two Sparks that start together on a fresh machine end with
``Downloaded file size (0) doesn't match``.
"""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock

from settings.errors import SettingsError

ICEBERG = "org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:1.12.0"

DRIVERS = {
    "sqlite": "org.xerial:sqlite-jdbc:3.50.3.0",
    "postgresql": "org.postgresql:postgresql:42.7.14",
    "s3": "org.apache.iceberg:iceberg-aws-bundle:1.12.0",
}
"""What else Spark needs, by what a catalog needs."""

CACHE = ".ivy2.5.2"
"""Where Spark 4.1 keeps them, in the user's home (`MavenUtils`)."""


def packages_of(drivers: Iterable[str]) -> tuple[str, ...]:
    """Return the packages that Spark needs besides its own jars.

    Args:
        drivers: what the catalog needs, as `CatalogConfig` names it.
    """
    return (ICEBERG, *(DRIVERS[driver] for driver in drivers))


def jars_config(drivers: Iterable[str], folder: str = "") -> dict[str, str]:
    """Return where Spark finds these packages: in a folder, or else in Maven's repository.

    Args:
        drivers: what the catalog needs, as `CatalogConfig` names it.
        folder: with one jar of each; empty to fetch them.

    Raises:
        SettingsError: the folder lacks some.
    """
    packages = packages_of(drivers)
    if not folder:
        return {"spark.jars.packages": ",".join(packages)}
    jars, missing = [], []
    for package in packages:
        _, artifact, version = package.split(":")
        jar = Path(folder).expanduser().absolute() / f"{artifact}-{version}.jar"
        (jars if jar.is_file() else missing).append(str(jar))
    if missing:
        raise SettingsError(f"TIDEMARK_SPARK_JARS: {jar} is not there" for jar in missing)
    return {"spark.jars": ",".join(jars)}


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
