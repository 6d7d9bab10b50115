"""Which Spark computes, and how much memory a driver of our own takes."""

from dataclasses import dataclass


@dataclass(frozen=True)
class SparkSettings:
    """Where runs find Spark.

    Attributes:
        remote: a Spark Connect address, ``sc://HOST:PORT``; empty for none.
        master: ``local[*]``, ``spark://HOST:PORT`` or another of Spark's; empty for none.
        driver_memory: memory of a driver that Tidemark starts, in Java's words.
        jars: folder with the jars of Iceberg and of the catalog's drivers; empty to fetch them.
    """

    remote: str = ""
    master: str = ""
    driver_memory: str = "2g"
    jars: str = ""


DEFAULT_SPARK = SparkSettings()
