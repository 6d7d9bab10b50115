"""Which Spark computes, and how much memory a driver of our own takes."""

from dataclasses import dataclass


@dataclass(frozen=True)
class SparkSettings:
    """Where runs find Spark.

    Attributes:
        remote: a Spark Connect address, ``sc://HOST:PORT``; empty for none.
        master: ``local[*]``, ``spark://...``, ``yarn`` or ``k8s://...``; empty for none.
        driver_memory: memory of a driver that Tidemark starts, in Java's words.
    """

    remote: str = ""
    master: str = ""
    driver_memory: str = "2g"


DEFAULT_SPARK = SparkSettings()
