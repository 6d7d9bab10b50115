"""Settings of Spark: the engine that computes, and the memory of a driver of our own."""

from dataclasses import dataclass
from urllib.parse import unquote

_SECRETS = ("token", "authorization", "password")
"""Parameters of a Spark Connect address that Dagster's records of a run would show."""


MASTERS = ("local", "spark://", "yarn", "k8s://")
"""Beginnings of the masters that Spark supports (`SparkSubmit`)."""


@dataclass(frozen=True)
class SparkSettings:
    """The Spark of runs.

    Attributes:
        remote: a Spark Connect address, ``sc://HOST:PORT``; empty for none.
        master: ``local[*]``, ``spark://HOST:PORT`` or another of Spark's; empty for none.
        driver_memory: memory of a driver that Tidemark starts, in Java's notation.
        driver_host: address at which executors reach that driver; empty for Spark's choice.
        jars: folder with the jars of Iceberg and of the catalog's drivers; empty to fetch them.
    """

    remote: str = ""
    master: str = ""
    driver_memory: str = "2g"
    jars: str = ""
    driver_host: str = ""


DEFAULT_SPARK = SparkSettings()


def holds_secret(remote: str) -> bool:
    """Return whether a Spark Connect address contains a secret, which no record may show."""
    address, *parameters = remote.split(";")
    names = (unquote(each.partition("=")[0]).strip().lower() for each in parameters)
    return "@" in address or any(name in _SECRETS for name in names)
