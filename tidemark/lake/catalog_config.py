"""Configuration of one Iceberg catalog for PyIceberg and for Spark."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import quote, urlsplit

from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError

from tidemark.host.postgresql import CONNECTION
from tidemark.host.shared import Shared
from tidemark.lake.landing_places import Landing
from tidemark.settings.basics import SettingsError
from tidemark.settings.home import Home
from tidemark.settings.sections import (
    FILE,
    HTTP,
    OF_HOME,
    POSTGRESQL,
    REST,
    S3,
    CatalogLogin,
    CatalogSettings,
    ObjectStore,
)

SQLITE_BUSY_SECONDS = 30
"""Seconds that a writer waits for the SQLite lock of another."""

SQLITE_JOURNAL = "TRUNCATE"
"""Journal mode of SQLite. By default SQLite ends a commit by removing its journal and syncs no
folder, so that a power cut may restore the journal and undo the commit."""

# The schema of Iceberg's JDBC catalog that PyIceberg writes too.
_JDBC = {"type": "jdbc", "jdbc.schema-version": "V1"}
_POSTGRESQL_PORT = 5432

CREDENTIAL, TOKEN = "TIDEMARK_CATALOG_CREDENTIAL", "TIDEMARK_CATALOG_TOKEN"

_DURABLE = "tidemark.lake.durable_tables.DurableFileIO"
"""The class by which Python writes the files of tables on a disk."""

_PLACE = re.compile(f"{S3}[^/]|{FILE}/")
"""Beginnings of a place of files; without a bucket the libraries name no setting."""


@dataclass(frozen=True, kw_only=True)
class CatalogConfig:
    """Settings to reach the catalog from Python and from Spark.

    Attributes:
        python: properties for PyIceberg.
        spark: properties of Iceberg's ``SparkCatalog``, without their prefix. Every user of a
            session can read them, so they contain no password.
        drivers: drivers of Spark in addition to Iceberg: ``sqlite``, ``postgresql``, ``s3``.
        place: where the catalog is, as an error names it.
        database: SQLAlchemy's address of the PostgreSQL that keeps leases and shared state, empty
            where files of the home do.
        password: the line of PostgreSQL's password file, None where the address holds no password.
        landing: where snapshots land, None for the folder in the home.
    """

    # Not shown: an address may hold a password.
    python: Mapping[str, str] = field(default_factory=dict, repr=False)
    spark: Mapping[str, str] = field(default_factory=dict, repr=False)
    drivers: tuple[str, ...] = ()
    place: str = ""
    database: str = field(default="", repr=False)
    password: str | None = field(default=None, repr=False)
    landing: Landing | None = None

    @classmethod
    def of(cls, home: Home, settings: CatalogSettings = OF_HOME) -> "CatalogConfig":
        """Return how the catalog of a home is reached; without settings, SQLite in the home.

        Raises:
            SettingsError: with a line for each setting that is missing or cannot be used.
        """
        if mistakes := _mistakes(home, settings):
            raise SettingsError(mistakes)
        # Not Path.as_uri: PyIceberg and Iceberg open a path as it is written, with its %20.
        warehouse = settings.warehouse or f"{FILE}{home.warehouse}"
        python, spark, drivers = {"warehouse": warehouse}, {"warehouse": warehouse}, []
        password, place = None, settings.uri
        database = _with_driver(make_url(settings.state)) if settings.state else ""
        if settings.type == REST:
            python |= {"type": "rest", "uri": settings.uri, **_python_login(settings.login)}
            spark |= {"type": "rest", "uri": settings.uri, **_spark_login(settings.login)}
        elif settings.type == POSTGRESQL:
            url = make_url(settings.uri)
            # The ping finds connections that a restart of the database has ended.
            python |= {"type": "sql", "uri": _bounded(url), "pool_pre_ping": "true"}
            spark |= {**_JDBC, "uri": _jdbc(url), "jdbc.user": url.username or ""}
            drivers.append("postgresql")
            password = _password_line(url)
            place = place_of(url)
            database = database or _with_driver(url)
        else:
            python |= {
                "type": "sql",
                "uri": f"sqlite:///{home.catalog}?timeout={SQLITE_BUSY_SECONDS}",
            }
            uri = (
                f"jdbc:sqlite:{home.catalog}?busy_timeout={SQLITE_BUSY_SECONDS}000"
                f"&journal_mode={SQLITE_JOURNAL}"
            )
            spark |= {**_JDBC, "uri": uri}
            drivers.append("sqlite")
            place = str(home.catalog)
        if warehouse.startswith(FILE):
            python["py-io-impl"] = _DURABLE
        if warehouse.startswith(S3):
            python |= _python_store(settings.store)
            spark |= _spark_store(settings.store)
            drivers.append("s3")
        landing = Landing.of(home, settings)
        return cls(
            python=python,
            spark=spark,
            drivers=tuple(drivers),
            place=place,
            database=database,
            password=password,
            landing=landing,
        )

    @property
    def shared(self) -> Shared | None:
        """The leases and the state of a database; None where they are files of the home."""
        if not self.database:
            return None
        return Shared.of_database(self.database, place_of(make_url(self.database)))


def place_of(url: URL) -> str:
    """Return how an error names a database."""
    return f"PostgreSQL at {url.host}:{url.port or _POSTGRESQL_PORT}/{url.database}"


def _mistakes(home: Home, settings: CatalogSettings) -> list[str]:
    """Return a line for each mistake, without any address, which may contain a password."""
    return [
        *_mistakes_of_files(home, settings),
        *_mistakes_of_servers(settings),
        *_mistakes_of_login(settings.login, settings.type),
    ]


def _mistakes_of_files(home: Home, settings: CatalogSettings) -> list[str]:
    mistakes, warehouse, endpoint = [], settings.warehouse, settings.store.endpoint
    mistakes += settings.mistakes_of_home(home)
    if warehouse and settings.type != REST and any(mark in warehouse for mark in "?#"):
        mistakes.append("TIDEMARK_WAREHOUSE takes a path without ? and #")
    # A REST catalog may know a warehouse by a name. The other kinds take any text for a place: a
    # path in the working folder, or a store for which they wait without end.
    if warehouse and settings.type != REST and not _PLACE.match(warehouse):
        mistakes.append("TIDEMARK_WAREHOUSE takes s3://BUCKET/PATH or file:///PATH")
    if endpoint and not endpoint.startswith(HTTP):
        # Python takes https:// then, and Spark takes nothing.
        mistakes.append("TIDEMARK_S3_ENDPOINT takes http://HOST:PORT or https://HOST")
    return mistakes


def _mistakes_of_servers(settings: CatalogSettings) -> list[str]:
    if not settings.type:
        without = (("TIDEMARK_CATALOG_URI", settings.uri), ("TIDEMARK_STATE_URI", settings.state))
        return [f"{name} is set without TIDEMARK_CATALOG_TYPE" for name, uri in without if uri]
    if settings.type not in (POSTGRESQL, REST):
        return [f"TIDEMARK_CATALOG_TYPE is {settings.type!r}: it takes {POSTGRESQL} or {REST}"]
    mistakes = []
    if settings.type == REST:
        if not settings.uri.startswith(HTTP):
            mistakes.append("TIDEMARK_CATALOG_URI takes http://HOST:PORT or https://HOST for rest")
        elif "@" in urlsplit(settings.uri).netloc:
            # It is a property of Spark and of each run, and errors show it.
            mistakes.append(
                "TIDEMARK_CATALOG_URI holds a name or password, which Spark would show: leave it "
                f"out, and log in by {CREDENTIAL}"
            )
    elif not _is_postgresql(settings.uri):
        mistakes.append("TIDEMARK_CATALOG_URI takes postgresql://USER@HOST:PORT/DATABASE for sql")
    if settings.state and not _is_postgresql(settings.state):
        mistakes.append("TIDEMARK_STATE_URI takes postgresql://USER@HOST:PORT/DATABASE")
    if settings.type == POSTGRESQL and not mistakes and "password" in make_url(settings.uri).query:
        mistakes.append(
            "TIDEMARK_CATALOG_URI has a password among its options, which Spark would show: name "
            "a file with PGPASSFILE"
        )
    if (settings.type == POSTGRESQL or settings.state) and not _has_driver():
        mistakes.append("PostgreSQL needs its driver: pip install 'tidemark[postgres]'")
    if not settings.warehouse:
        mistakes.append(
            "TIDEMARK_WAREHOUSE is not set: a catalog of several homes needs s3://BUCKET/PATH or "
            "file:///PATH"
        )
    return mistakes


def _is_postgresql(uri: str) -> bool:
    try:
        url = make_url(uri)
    except (ArgumentError, ValueError):  # the latter of a port that is no number
        return False
    # An @ in a password that is not written %40 ends up in the host.
    named = url.host and "@" not in url.host and url.username and url.database
    return url.get_backend_name() == "postgresql" and bool(named)


def _has_driver() -> bool:
    try:
        import psycopg2  # noqa: F401
    except ImportError:
        return False
    return True


def _with_driver(url: URL) -> str:
    # SQLAlchemy 2.1 takes psycopg 3 where no driver is named; the extra installs psycopg2.
    named = url.set(drivername="postgresql+psycopg2")
    return named.render_as_string(hide_password=False)


def _bounded(url: URL) -> str:
    """Return the address for PyIceberg, which by itself waits for a server without end."""
    bounds = {name: str(value) for name, value in CONNECTION.items()}
    return _with_driver(url.set(query={**bounds, **url.query}))


def _jdbc(url: URL) -> str:
    # Java's driver decodes both, also a + which is not encoded.
    options = "&".join(
        f"{name}={quote(value, safe='/')}"
        for name, values in url.normalized_query.items()
        for value in values
    )
    return (
        f"jdbc:postgresql://{url.host}:{url.port or _POSTGRESQL_PORT}/"
        f"{quote(url.database or '', safe='')}"
        f"{'?' if options else ''}{options}"
    )


def _password_line(url: URL) -> str | None:
    if url.password is None:
        return None
    parts = (url.host, str(url.port or _POSTGRESQL_PORT), url.database, url.username, url.password)
    return ":".join((part or "").replace("\\", "\\\\").replace(":", "\\:") for part in parts)


def _login(login: CatalogLogin) -> dict[str, str]:
    """Return the properties of a login that are no secret, by the names of both libraries."""
    properties = {"oauth2-server-uri": login.server, "scope": login.scope}
    return {name: value for name, value in properties.items() if value}


def _python_login(login: CatalogLogin) -> dict[str, str]:
    secrets = {"credential": login.credential, "token": login.token}
    return {**_login(login), **{name: value for name, value in secrets.items() if value}}


def _spark_login(login: CatalogLogin) -> dict[str, str]:
    """Return the properties of a login for Spark, which names the variable of each secret.

    Every user of a session can read its properties. Iceberg reads the variable of its own process
    (`EnvironmentUtil.resolveAll`), so the engine needs it in its environment.

    With a credential it gets each token by the credential, as PyIceberg does. By default it would
    exchange the one that expires for the next, which servers such as Keycloak refuse: an engine
    then lost the catalog when its first token had expired.
    """
    named = {"credential": CREDENTIAL, "token": TOKEN}
    given = {"credential": login.credential, "token": login.token}
    properties = {**_login(login), **{name: f"env:{named[name]}" for name in named if given[name]}}
    return properties | ({"token-exchange-enabled": "false"} if login.credential else {})


def _mistakes_of_login(login: CatalogLogin, type_: str) -> list[str]:
    if login == CatalogLogin():
        return []
    if type_ != REST:
        return [f"{CREDENTIAL}, {TOKEN} and their options are of TIDEMARK_CATALOG_TYPE={REST}"]
    mistakes = []
    if login.credential and login.token:
        mistakes.append(f"{CREDENTIAL} and {TOKEN} are both set: give one of them")
    if login.server and not login.server.startswith(HTTP):
        mistakes.append("TIDEMARK_CATALOG_OAUTH2_URI takes http://HOST:PORT/PATH or https://...")
    if (login.server or login.scope) and not login.credential:
        mistakes.append(f"TIDEMARK_CATALOG_OAUTH2_URI and _SCOPE need {CREDENTIAL}")
    return mistakes


def _python_store(store: ObjectStore) -> dict[str, str]:
    # Without a region PyArrow requests the bucket's, which takes seconds.
    values = {"s3.region": store.region}
    if store.endpoint:
        values["s3.endpoint"] = store.endpoint
    if not store.path_style:
        values["s3.force-virtual-addressing"] = "true"
    return values


def _spark_store(store: ObjectStore) -> dict[str, str]:
    values = {
        "io-impl": "org.apache.iceberg.aws.s3.S3FileIO",
        "client.region": store.region,
        "s3.path-style-access": str(store.path_style).lower(),
    }
    if store.endpoint:
        values["s3.endpoint"] = store.endpoint
    return values
