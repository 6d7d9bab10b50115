"""The versions of all tables, cheap enough to read every second."""

from pyiceberg.catalog.sql import IcebergTables, SqlCatalog
from sqlalchemy import select

from tidemark.lake.catalog import Lake
from tidemark.lake.damaged_files import FREE, usable
from tidemark.lake.tables import TABLES


def versions(lake: Lake) -> dict[str, str]:
    """Return the place of each table's metadata, which every change gives a new one.

    A catalog in SQL gives all places at once. Another one gets a request for every table.

    Raises:
        DamagedError: the catalog cannot be read.
    """
    catalog = lake.catalog
    if not isinstance(catalog, SqlCatalog):
        return {name: lake.table(name).metadata_location for name in TABLES}
    places = select(
        IcebergTables.table_namespace,
        IcebergTables.table_name,
        IcebergTables.metadata_location,
    ).where(IcebergTables.catalog_name == catalog.name)
    with usable("the catalog", FREE), catalog.engine.connect() as connection:
        rows = connection.execute(places).all()
    return {f"{namespace}.{name}": str(place) for namespace, name, place in rows}
