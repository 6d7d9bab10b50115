"""The jars that Spark fetches from Maven Central the first time it starts on a machine.

They go into a cache that all Sparks of a user share. Ivy, which fills it, lets several fill it at
once, and then all of them fail: two Sparks that start together on a fresh machine end with
``Downloaded file size (0) doesn't match``.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock

PACKAGES = (
    "org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:1.12.0",
    "org.xerial:sqlite-jdbc:3.50.3.0",
)
"""Packages that Spark needs besides its own jars."""

CACHE = ".ivy2.5.2"
"""Where Spark 4.1 keeps them, in the user's home (`MavenUtils`)."""


@contextmanager
def fetched_once() -> Iterator[None]:
    """Around the start of a Spark: while the jars are not there, one starts after the other."""
    cache = Path.home() / CACHE
    if _are_in(cache):
        yield
        return
    cache.mkdir(parents=True, exist_ok=True)
    with FileLock(cache / "tidemark.lock"):
        yield


def _are_in(cache: Path) -> bool:
    jars = ("_".join(package.split(":")[:2]) + "-" + package.split(":")[2] for package in PACKAGES)
    return all((cache / "jars" / f"{jar}.jar").is_file() for jar in jars)
