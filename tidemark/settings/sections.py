"""Sections of the settings: catalog, Spark, history, metrics, OTLP, notifications, constants."""

import re
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from urllib.parse import unquote, urlsplit

from tidemark.settings.basics import SettingsError
from tidemark.settings.home import Home

MEMORY = timedelta(hours=24)
"""Time for which an unreachable broker, and the groups on it, are reported as unknown."""

OBSERVATIONS = 10
"""Observations of a group, the newest included, from which its health is computed."""


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


@dataclass(frozen=True, kw_only=True)
class CatalogLogin:
    """How a rest catalog knows this deployment; empty where it needs no login.

    Attributes:
        credential: ``CLIENT_ID:CLIENT_SECRET`` of OAuth2; the libraries fetch and renew tokens.
        token: a bearer token in place of it, which lasts as long as its issuer decides.
        server: address of the OAuth2 server; empty for that of the catalog.
        scope: of the tokens; empty for the libraries' ``catalog``.
    """

    credential: str = field(default="", repr=False)
    token: str = field(default="", repr=False)
    server: str = ""
    scope: str = ""


@dataclass(frozen=True, kw_only=True)
class CatalogSettings:
    """The address of an Iceberg catalog.

    Attributes:
        type: ``sql`` for PostgreSQL, ``rest``; empty for SQLite in the home.
        uri: its address, which may contain a password and is never shown.
        login: how a ``rest`` catalog knows this deployment.
        warehouse: the place of data files; empty for the folder in the home.
        store: the address of a bucket.
        state: address of the PostgreSQL that keeps leases and shared state; empty for that of a
            ``sql`` catalog, or else files of the home. It may contain a password too.
        landing: the place of landed snapshots; empty for the folder in the home.
    """

    type: str = ""
    uri: str = field(default="", repr=False)
    login: CatalogLogin = CatalogLogin()
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


_SECRETS = ("token", "authorization", "password")
"""Parameters of a Spark Connect address that Dagster's records of a run would show."""


MASTERS = ("local", "spark://", "yarn", "k8s://")
"""Beginnings of the masters that Spark supports (`SparkSubmit`)."""


@dataclass(frozen=True, kw_only=True)
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
    names = (unquote(parameter.partition("=")[0]).strip().lower() for parameter in parameters)
    return "@" in address or any(name in _SECRETS for name in names)


@dataclass(frozen=True, kw_only=True)
class HistorySettings:
    """Times that a computation reads before its window; the defaults are those of the contract.

    Attributes:
        longest_gap: the longest gap between two observations that a rate is computed over.
        shortest_step: the shortest time between two observations that a rate is computed over, and
            that health counts as two. Over less, a batch that happens to fall between them would
            seem to be a rate.
        timeline_reach: how far back messages are dated by the growth of their queue; the retention
            of the brokers, or more.
        thin_after: the age from which the timeline is thinned.
        thinned_step: how much time one row of the thinned timeline covers.
        sample_validity: how long a sample of tags, or a count of delivered messages, serves for
            filtered lag.
        days: how many days back landed history can be loaded and recomputed.
    """

    longest_gap: timedelta = timedelta(minutes=10)
    shortest_step: timedelta = timedelta(seconds=10)
    timeline_reach: timedelta = timedelta(hours=72)
    thin_after: timedelta = timedelta(hours=6)
    thinned_step: timedelta = timedelta(minutes=5)
    sample_validity: timedelta = timedelta(minutes=60)
    days: int = 30


RUN_MINUTES = 120
"""Longest time of a run, in minutes."""

DEFAULT_HISTORY = HistorySettings()

BACKFILL_HOURS = 6
"""Hours that one run of a backfill computes by default: of 16,000 group queues in some minutes."""


@dataclass(frozen=True, kw_only=True)
class MetricsSettings:
    """One switch for each family.

    Attributes:
        native: the names that brokers of RocketMQ 5.5 export.
        exporter: the names of rocketmq-exporter.
        own: Tidemark's own names.
        queues: a series for each queue of each group; many.
    """

    native: bool = True
    exporter: bool = True
    own: bool = True
    queues: bool = False

    @property
    def families(self) -> frozenset[str]:
        """Names of the families that are on."""
        switches = {
            "native": self.native,
            "exporter": self.exporter,
            "own": self.own,
            "queues": self.queues,
        }
        return frozenset(name for name, is_on in switches.items() if is_on)


DEFAULT_METRICS = MetricsSettings()


@dataclass(frozen=True, kw_only=True)
class NotificationSettings:
    """The addresses of channels, which hold tokens and are never shown.

    Attributes:
        urls: apprise addresses that receive notifications, separated by white space.
        digest_urls: apprise addresses that receive digests.
        digest_every: the duration between two digests, as it was written. It is checked when the
            channels are opened, because a mistake in it must not delay other notifications.
        heartbeat_url: address that is called after every tick and every delivery.
        board_url: address at which browsers reach the board; empty where none is known.
    """

    urls: str = field(default="", repr=False)
    digest_urls: str = field(default="", repr=False)
    digest_every: str = "1d"
    heartbeat_url: str = field(default="", repr=False)
    board_url: str = ""


DEFAULT_NOTIFICATIONS = NotificationSettings()


_HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")


def fault_of_endpoint(endpoint: str) -> str:
    """Return why samples cannot be sent to an address; empty where they can."""
    parts = urlsplit(endpoint)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        return "it takes http://HOST:4318 or https://HOST/PATH"
    if "@" in parts.netloc or parts.query:
        return "logins and tokens belong into the file of TIDEMARK_OTLP_HEADERS_FILE"
    return ""


@dataclass(frozen=True, kw_only=True)
class OtlpSettings:
    """Where samples are sent by OTLP.

    Attributes:
        endpoint: address of the collector.
        headers_file: file with a header a line, ``NAME: VALUE``; None without headers.
        seconds: from one export to the next.
    """

    endpoint: str
    headers_file: Path | None = None
    seconds: int

    def headers(self) -> dict[str, str]:
        """Return the headers as the file has them now.

        Raises:
            SettingsError: the file cannot be read, or a line is no header. No value is shown.
        """
        if self.headers_file is None:
            return {}
        where = f"TIDEMARK_OTLP_HEADERS_FILE={self.headers_file}"
        try:
            lines = self.headers_file.read_text().splitlines()
        except (OSError, UnicodeDecodeError) as error:
            reason = error.strerror if isinstance(error, OSError) else "it is no text"
            raise SettingsError([f"{where}: {reason}"]) from error
        headers: dict[str, str] = {}
        mistakes: list[str] = []
        for number, line in enumerate(lines, 1):
            if not line.strip() or line.startswith("#"):
                continue
            name, _, value = (part.strip() for part in line.partition(":"))
            if _HEADER_NAME.fullmatch(name) and value and value.isprintable() and value.isascii():
                headers[name] = value
            else:
                mistakes.append(f"{where}, line {number}: NAME: VALUE is wanted")
        if mistakes:
            raise SettingsError(mistakes)
        return headers
