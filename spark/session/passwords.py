"""The password of a PostgreSQL catalog for Spark: in a file that only its user can read.

A property would be visible to every user of a session, on command lines and in Dagster's runs.
"""

from lake.catalog_config import CatalogConfig
from settings.home import Home


def password_file(home: Home, catalog: CatalogConfig) -> dict[str, str]:
    """Write the password of the catalog's address, and return the variable that names the file.

    Without a password in the address the variable stays as the environment has it: PostgreSQL's
    drivers for Java and Python both read the file that ``PGPASSFILE`` names.
    """
    if catalog.password is None:
        return {}
    home.make()
    home.engine.mkdir(exist_ok=True)
    file = home.engine / "pgpass"
    file.unlink(missing_ok=True)
    file.touch(mode=0o600)
    file.write_text(catalog.password + "\n")
    return {"PGPASSFILE": str(file)}
