"""Settings of the Iceberg catalog, of the warehouse and of the landing."""

from dataclasses import dataclass, field

from settings.home import Home

POSTGRESQL = "sql"
REST = "rest"
S3 = "s3://"
FILE = "file://"
HTTP = ("http://", "https://")


@dataclass(frozen=True)
class ObjectStore:
    """The address of a bucket; its credentials are those of the platform (``AWS_...``).

    Attributes:
        endpoint: its address where it is not the region's own, ``https://HOST:PORT``.
        region: where the bucket is.
        path_style: whether an address has the bucket in its path and not in its host.
    """

    endpoint: str = ""
    region: str = "us-east-1"
    path_style: bool = False


@dataclass(frozen=True)
class CatalogSettings:
    """The address of an Iceberg catalog.

    Attributes:
        type: ``sql`` for PostgreSQL, ``rest``; empty for SQLite in the home.
        uri: its address, which may contain a password and is never shown.
        warehouse: the place of data files; empty for the folder in the home.
        store: the address of a bucket.
        state: address of the PostgreSQL that keeps leases and shared state; empty for that of a
            ``sql`` catalog, or else files of the home. It may contain a password too.
        landing: the place of landed snapshots; empty for the folder in the home.
    """

    type: str = ""
    uri: str = field(default="", repr=False)
    warehouse: str = ""
    store: ObjectStore = ObjectStore()
    state: str = field(default="", repr=False)
    landing: str = ""

    def mistakes_of_home(self, home: Home) -> list[str]:
        """Return why a tick could not use a home, a line each: nothing is to land there then.

        PyIceberg cuts an address at these characters, SQLite's driver of Java a path; Dagster
        decodes its own.
        """
        if self.type or not any(mark in str(home.path) for mark in "?#%"):
            return []
        return [f"TIDEMARK_HOME takes a path without ?, # and %, not {home.path}"]


OF_HOME = CatalogSettings()
"""The catalog that needs no server: SQLite and files in the home."""
