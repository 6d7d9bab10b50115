"""Which Iceberg catalog holds the tables."""

from dataclasses import dataclass, field


@dataclass(frozen=True)
class CatalogSettings:
    """The address of an Iceberg catalog.

    Attributes:
        type: ``sql``, ``rest``, ``glue`` or ``hive``; empty for SQLite in the home.
        uri: its address, which may hold a password and is never shown.
        warehouse: where data files lie; empty for the folder in the home.
    """

    type: str = ""
    uri: str = field(default="", repr=False)
    warehouse: str = ""


OF_HOME = CatalogSettings()
