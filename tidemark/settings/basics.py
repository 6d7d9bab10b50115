"""The base of all settings: names of variables, files, the few settings of every command, an error.

`tidemark.settings.environment.Settings` declares these settings too, with their descriptions;
importing that takes a tenth of a second, which is a third of the time of `tidemark lag`. A test
holds the names of the variables to its fields.
"""

import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from tidemark.settings.home import DEFAULT_HOME, Home


class SettingsError(ValueError):
    """Settings that cannot be used.

    Attributes:
        mistakes: one line each.
    """

    def __init__(self, mistakes: Iterable[str]) -> None:
        self.mistakes = tuple(mistakes)
        super().__init__("; ".join(self.mistakes))


PREFIX = "TIDEMARK_"

NAMES = tuple(
    PREFIX + name
    for name in (
        "HOME",
        "NAMESRV",
        "CLUSTER",
        "CLUSTERS",
        "BROKER_NETWORKS",
        "MESSAGE_LOOKUP",
        "INCIDENT_STACKS",
        "RULES",
        "DOCS_URL",
        "BOARD_URL",
        "DAGSTER_URL",
        "HEALTH",
        "QUALITY",
        "EXPECTATIONS",
        "CAPACITY",
        "OBJECTIVES",
        "OWNERS",
        "NOTIFY_URLS",
        "DIGEST_URLS",
        "HEARTBEAT_URL",
        "DIGEST_EVERY",
        "CLIENT_CORES",
        "CLIENT_COMPUTE_MS",
        "CLIENT_USE_PERCENT",
        "CLIENT_MESSAGES",
        "RAW_DAYS",
        "PROGRESS_DAYS",
        "ALERT_DAYS",
        "RUN_MINUTES",
        "BACKFILL_HOURS",
        "RUN_HISTORY_DAYS",
        "SCHEDULE",
        "HISTORY_DAYS",
        "TIMELINE_HOURS",
        "THIN_AFTER_HOURS",
        "THINNED_MINUTES",
        "GAP_MINUTES",
        "RATE_SECONDS",
        "SAMPLE_MINUTES",
        "SPARK_REMOTE",
        "SPARK_MASTER",
        "SPARK_JARS",
        "DRIVER_HOST",
        "DRIVER_MEMORY",
        "CATALOG_TYPE",
        "CATALOG_URI",
        "CATALOG_CREDENTIAL",
        "CATALOG_TOKEN",
        "CATALOG_OAUTH2_URI",
        "CATALOG_SCOPE",
        "STATE_URI",
        "WAREHOUSE",
        "LANDING",
        "S3_ENDPOINT",
        "S3_REGION",
        "S3_PATH_STYLE",
        "METRICS_NATIVE",
        "METRICS_EXPORTER",
        "METRICS_OWN",
        "METRICS_QUEUES",
        "OTLP_ENDPOINT",
        "OTLP_HEADERS_FILE",
        "OTLP_SECONDS",
        "SERVE_TOKEN",
        "SERVE_READ_TOKEN",
        "SERVE_USERS",
        "SERVE_HEADER",
        "SERVE_PROXIES",
        "SERVE_HOSTS",
        "SERVE_ACTORS",
        "SERVE_TEAMS",
        "SERVE_MCP",
        "WEBSERVER_HOSTS",
        "DEBUG",
        "IVY_SETTINGS",
    )
)

OLD_NAMES = {f"{PREFIX}HOLE_MINUTES": f"{PREFIX}GAP_MINUTES"}
"""Old name to the new one; both work, and the new one wins."""

OF_TESTS = (f"{PREFIX}TEST_VERSION",)
"""Variables that only the tests read."""


def warnings_of(environment: Iterable[str]) -> list[str]:
    """Return a line for each variable whose name is old, or is no setting at all.

    Args:
        environment: names of variables.
    """
    entries = []
    for name in sorted(environment):
        if not name.startswith(PREFIX) or name in NAMES or name in OF_TESTS:
            continue
        if name in OLD_NAMES:
            entries.append(f"{name} is the old name of {OLD_NAMES[name]}")
        else:
            entries.append(f"{name} is not a setting; {_advice(name)}")
    return entries


def _advice(name: str) -> str:
    from difflib import get_close_matches

    ends = [known.removeprefix(PREFIX) for known in NAMES]
    nearest = get_close_matches(name.removeprefix(PREFIX), ends, n=1)
    return (
        f"did you mean {PREFIX}{nearest[0]}?" if nearest else "tidemark config lists all settings"
    )


OFF = ("", "0", "off", "false", "no")


@dataclass(frozen=True, kw_only=True)
class BasicSettings:
    """The places of state, and the clusters to collect.

    Attributes:
        home: the folder of all state.
        namesrv: name servers, ``HOST:PORT`` separated by ``;``.
        cluster: the name of the cluster; without `namesrv` it selects one of the file's clusters.
        clusters: the file of clusters, where it is not ``clusters.yaml`` in the home.
        catalog_type: the kind of Iceberg catalog; empty for SQLite in the home.
        has_state_uri: whether leases and shared state have a database of their own.
        debug: whether a failure shows its traceback.
    """

    home: Home
    namesrv: str = ""
    cluster: str = ""
    clusters: str = ""
    catalog_type: str = ""
    has_state_uri: bool = False
    debug: bool = False

    @property
    def has_history(self) -> bool:
        """Whether there are tables that can be read."""
        return bool(self.catalog_type) or self.home.catalog.exists()

    @classmethod
    def read(cls, environment: Mapping[str, str] = os.environ) -> "BasicSettings":
        """Read them from the environment; every text is a valid one."""

        def text(name: str) -> str:
            return environment.get(PREFIX + name, "")

        return cls(
            home=Home.of(text("HOME") or DEFAULT_HOME),
            namesrv=text("NAMESRV"),
            cluster=text("CLUSTER"),
            clusters=text("CLUSTERS"),
            catalog_type=text("CATALOG_TYPE"),
            has_state_uri=bool(text("STATE_URI")),
            debug=text("DEBUG").lower() not in OFF,
        )


_VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")


def expanded(text: str, environ: Mapping[str, str] | None = None) -> str:
    """Return a text with the values of the variables that it names.

    Args:
        text: as a file has it.
        environ: the environment; None = that of this process.

    Raises:
        ValueError: a variable is not set; the message names it and no value.
    """
    known = os.environ if environ is None else environ
    for name in _VARIABLE.findall(text):
        if not known.get(name):
            raise ValueError(f"the variable {name} is not set")
    return _VARIABLE.sub(lambda match: known[match[1]], text)


@dataclass(frozen=True)
class SettingsFile:
    """A settings file, or a folder of them.

    Attributes:
        path: where it is.
        required: whether it has to exist, because a variable names it.
    """

    path: Path
    required: bool = False

    @classmethod
    def of(cls, home: Home, default_name: str, named: str = "") -> "SettingsFile":
        """Return the file that a variable names, else that of the default name in the home."""
        return cls(Path(named), required=True) if named else cls(home.path / default_name)

    @property
    def missing(self) -> bool:
        """Whether it does not exist and need not."""
        return not self.required and not self.path.exists()
