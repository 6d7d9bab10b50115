"""Every variable of the environment that configures Tidemark, with its type, unit and default.

A process reads them once, where it starts, and passes the values on. `tidemark.settings.basics`
reads the few that every command needs without importing this model.
"""

import os
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Any

from pydantic import (
    AliasChoices,
    BeforeValidator,
    Field,
    SecretStr,
    ValidationError,
    field_validator,
    model_validator,
)
from pydantic_core import ErrorDetails
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

from tidemark.rocketmq.wire.addresses import Networks
from tidemark.settings.basics import OLD_NAMES, PREFIX, BasicSettings, SettingsError, SettingsFile
from tidemark.settings.clusters import fault_of_name
from tidemark.settings.home import DEFAULT_HOME, Home
from tidemark.settings.owners import DEFAULT_SIZING
from tidemark.settings.secrets import refused
from tidemark.settings.sections import (
    BACKFILL_HOURS,
    DEFAULT_HISTORY,
    DEFAULT_METRICS,
    DEFAULT_NOTIFICATIONS,
    DEFAULT_SPARK,
    MASTERS,
    OF_HOME,
    RUN_MINUTES,
    CatalogLogin,
    CatalogSettings,
    HistorySettings,
    MetricsSettings,
    NotificationSettings,
    ObjectStore,
    OtlpSettings,
    SparkSettings,
    fault_of_endpoint,
    holds_secret,
)

SECOND = timedelta(seconds=1)
MINUTE = timedelta(minutes=1)
HOUR = timedelta(hours=1)

WholeNumber = Annotated[int, Field(ge=1)]
PositiveNumber = Annotated[float, Field(gt=0, allow_inf_nan=False)]
MemorySize = Annotated[str, Field(pattern=r"^[1-9]\d*[kmgtKMGT]$")]

TAKES = {
    "bool_parsing": "on or off",
    "string_pattern_mismatch": "a number with k, m, g or t, like 2g",
    "int_parsing": "a whole number from 1 on",
    "int_from_float": "a whole number from 1 on",
    "greater_than_equal": "a whole number from 1 on",
    "float_parsing": "a number above 0",
    "less_than_equal": "a whole number from 1 to 100",
    "greater_than": "a number above 0",
    "finite_number": "a number above 0",
}
"""Values that a variable accepts, by pydantic's type of the error."""


def _setting(default: Any, description: str, unit: str = "", **more: Any) -> Any:
    return Field(default, description=description, json_schema_extra={"unit": unit}, **more)


def _home(value: Any) -> Home:
    return value if isinstance(value, Home) else Home.of(str(value))


class Settings(BaseSettings):
    """All settings of the environment; a field's variable is its name behind ``TIDEMARK_``.

    A default that a section of the settings has stands there, and is taken from it here.
    """

    model_config = SettingsConfigDict(
        env_prefix=PREFIX,
        env_ignore_empty=True,
        extra="ignore",
        frozen=True,
        populate_by_name=True,
        hide_input_in_errors=True,
    )

    home: Annotated[Home, NoDecode, BeforeValidator(_home)] = Field(
        default_factory=lambda: Home.of(DEFAULT_HOME),
        description="Folder of all state; .tidemark unless set.",
    )
    namesrv: str = _setting("", "Name servers, HOST:PORT separated by ';'.")
    cluster: str = _setting(
        "", "What to call the cluster; without NAMESRV, which cluster of the file."
    )
    clusters: str = _setting("", "File of clusters; clusters.yaml in the home unless set.")
    broker_networks: str = _setting(
        "",
        "Networks of name servers, brokers and proxies, e.g. 10.0.0.0/8, separated by blanks; "
        "nothing else is connected to. Any address that is listed, unless set.",
    )
    message_lookup: bool = _setting(
        False,
        "Whether the message that blocks a queue may be looked up, without its body, in clusters "
        "of the file without a message_lookup of their own.",
    )
    incident_stacks: bool = _setting(
        True,
        "Whether incidents of blocked and stalled groups keep the stacks of consume threads, which "
        "members report once when it fires.",
    )
    rules: str = _setting("", "Alert rules, a YAML file or a folder; ready-made unless set.")
    docs_url: str = _setting(
        "", "Address of the documentation site, whose runbooks notifications link to."
    )
    dagster_url: str = _setting(
        "", "Address at which browsers reach Dagster's pages; the board links to them."
    )
    board_url: str = _setting(
        "",
        "Address at which browsers reach the board; notifications and Dagster's pages link to it.",
    )
    health: str = _setting("", "File of health thresholds; health.yaml in the home unless set.")
    quality: str = _setting(
        "", "File of what expectations tolerate; quality.yaml in the home unless set."
    )
    expectations: str = _setting(
        "",
        "Folder of Great Expectations suites, named by table; expectations in the home unless set.",
    )
    capacity: str = _setting(
        "", "File of what consumers run on; capacity.yaml in the home unless set."
    )
    objectives: str = _setting(
        "", "File of objectives of groups; objectives.yaml in the home unless set."
    )
    owners: str = _setting("", "File of the teams of groups; owners.yaml in the home unless set.")
    notify_urls: SecretStr = _setting(
        SecretStr(""), "Apprise addresses that receive notifications, separated by blanks."
    )
    digest_urls: SecretStr = _setting(
        SecretStr(""), "Apprise addresses that receive digests, separated by blanks."
    )
    heartbeat_url: SecretStr = _setting(
        SecretStr(""),
        "Address that is called after each tick and delivery, its /fail after a failure.",
    )
    digest_every: str = _setting(
        DEFAULT_NOTIFICATIONS.digest_every, "Time between two digests, e.g. 8h or 7d.", "duration"
    )
    client_cores: PositiveNumber | None = _setting(
        None, "Cores that a consumer may use; best_threads of progress.capacity needs it.", "cores"
    )
    client_compute_ms: PositiveNumber | None = _setting(
        None, "Computing time of one listener call; best_threads needs it.", "milliseconds"
    )
    client_use_percent: Annotated[int, Field(ge=1, le=100)] = _setting(
        round(100 * DEFAULT_SIZING.most_used),
        "Largest use of members at the peak for which clients_needed are counted.",
        "percent",
    )
    client_messages: WholeNumber = _setting(
        DEFAULT_SIZING.fewest_messages,
        "Fewest consumed messages that the time of a listener call is measured over.",
        "messages",
    )
    raw_days: WholeNumber = _setting(7, "How long rows of raw.* are kept.", "days")
    progress_days: WholeNumber = _setting(
        90, "How long rows of progress.* and quality.* are kept.", "days"
    )
    alert_days: WholeNumber = _setting(
        30, "How long rows of alerting.alerts are kept; incidents stay.", "days"
    )
    run_minutes: WholeNumber = _setting(
        RUN_MINUTES,
        "Longest time of a run, after which it is ended; for each day of a recomputation.",
        "minutes",
    )
    backfill_hours: WholeNumber = _setting(
        BACKFILL_HOURS,
        "Hours that one run of a backfill from Dagster's UI computes; between two, ticks run.",
        "hours",
    )
    run_history_days: WholeNumber = _setting(
        7, "How long Dagster's history of runs is kept: their events and logs.", "days"
    )
    schedule: bool = _setting(False, "Whether schedules and sensors run from the start.")
    history_days: WholeNumber = _setting(
        DEFAULT_HISTORY.days,
        "How far back landed snapshots are loaded and hours are recomputed.",
        "days",
    )
    timeline_hours: WholeNumber = _setting(
        DEFAULT_HISTORY.timeline_reach // HOUR,
        "How far back messages are dated; the retention of the brokers or more.",
        "hours",
    )
    thin_after_hours: WholeNumber = _setting(
        DEFAULT_HISTORY.thin_after // HOUR, "Age from which that history is thinned.", "hours"
    )
    thinned_minutes: WholeNumber = _setting(
        DEFAULT_HISTORY.thinned_step // MINUTE,
        "Time that one row of thinned history covers.",
        "minutes",
    )
    gap_minutes: WholeNumber = _setting(
        DEFAULT_HISTORY.longest_gap // MINUTE,
        "Longest gap between two observations that a rate is computed over.",
        "minutes",
        validation_alias=AliasChoices(
            f"{PREFIX}GAP_MINUTES",
            *(old for old, new in OLD_NAMES.items() if new == f"{PREFIX}GAP_MINUTES"),
        ),
    )
    rate_seconds: WholeNumber = _setting(
        DEFAULT_HISTORY.shortest_step // SECOND,
        "Shortest time between two observations that a rate is computed over, and that health "
        "counts as two; both reach further back over closer ones.",
        "seconds",
    )
    sample_minutes: WholeNumber = _setting(
        DEFAULT_HISTORY.sample_validity // MINUTE,
        "How long a sample of tags serves for filtered lag.",
        "minutes",
    )
    spark_remote: str = _setting(
        "",
        "Spark Connect address, sc://HOST:PORT, of a server with Iceberg's jars. Its token is "
        "taken from SPARK_CONNECT_AUTHENTICATE_TOKEN.",
    )
    spark_master: str = _setting("", "Spark master; local[*] unless set.")
    spark_jars: str = _setting(
        "", "Folder with Iceberg's jars and the catalog's drivers; fetched from Maven unless set."
    )
    driver_host: str = _setting(
        "", "Address at which executors on other hosts reach a driver that Tidemark starts."
    )
    driver_memory: MemorySize = _setting(
        DEFAULT_SPARK.driver_memory, "Memory of a Spark driver that Tidemark starts."
    )
    catalog_type: str = _setting(
        "", "Another Iceberg catalog: sql for PostgreSQL, or rest; SQLite in the home unless set."
    )
    catalog_uri: SecretStr = _setting(SecretStr(""), "Address of the catalog that CATALOG_TYPE is.")
    catalog_credential: SecretStr = _setting(
        SecretStr(""), "Login at a rest catalog by OAuth2, CLIENT_ID:CLIENT_SECRET."
    )
    catalog_token: SecretStr = _setting(
        SecretStr(""), "Bearer token for a rest catalog, in place of CATALOG_CREDENTIAL."
    )
    catalog_oauth2_uri: str = _setting(
        "", "Address that gives tokens for CATALOG_CREDENTIAL; the rest catalog's own unless set."
    )
    catalog_scope: str = _setting("", "Scope of these tokens; catalog unless set.")
    state_uri: SecretStr = _setting(
        SecretStr(""),
        "PostgreSQL address of leases and shared state; that of a sql catalog unless set.",
    )
    warehouse: str = _setting(
        "", "Where data files lie, file:///PATH or s3://BUCKET/PATH; in the home unless set."
    )
    landing: str = _setting(
        "", "Where snapshots land, file:///PATH or s3://BUCKET/PATH; in the home unless set."
    )
    s3_endpoint: str = _setting(
        "", "Address of the object store of s3:// places where it is not the region's own."
    )
    s3_region: str = _setting(OF_HOME.store.region, "Region of the buckets of s3:// places.")
    s3_path_style: bool = _setting(
        OF_HOME.store.path_style,
        "Whether the bucket stands in the path of an address and not in its host name.",
    )
    metrics_native: bool = _setting(
        DEFAULT_METRICS.native,
        "Whether /metrics has the names that brokers of RocketMQ 5.5 export.",
    )
    metrics_exporter: bool = _setting(
        DEFAULT_METRICS.exporter, "Whether /metrics has the names of rocketmq-exporter."
    )
    metrics_own: bool = _setting(DEFAULT_METRICS.own, "Whether /metrics has Tidemark's own names.")
    metrics_queues: bool = _setting(
        DEFAULT_METRICS.queues, "Whether /metrics has a series for each queue of each group."
    )
    otlp_endpoint: str = _setting(
        "",
        "Address of a collector that tidemark serve sends metrics to by OTLP over HTTP, e.g. "
        "http://HOST:4318; it needs the extra otlp.",
    )
    otlp_headers_file: str = _setting(
        "", "File with the headers of these requests, NAME: VALUE a line; read at each export."
    )
    otlp_seconds: WholeNumber = _setting(60, "Seconds from one export to the next.")
    serve_token: SecretStr = _setting(
        SecretStr(""), "Bearer token of whoever may read and act on the board."
    )
    serve_read_token: SecretStr = _setting(
        SecretStr(""), "Bearer token of whoever may only read it."
    )
    serve_users: str = _setting(
        "",
        "File of who logs in with a password: NAME:HASH:read or NAME:HASH:act a line, and :TEAM "
        "behind it for who sees the groups of that team only.",
    )
    serve_header: str = _setting(
        "", "Header in which a trusted proxy names the person, e.g. X-Forwarded-User."
    )
    serve_proxies: str = _setting(
        "",
        "Addresses or networks of the proxies whose header is believed, separated by blanks.",
    )
    serve_hosts: str = _setting(
        "",
        "Names by which browsers reach the board behind such a proxy, separated by blanks; "
        "loopback and addresses need none.",
    )
    serve_actors: str = _setting(
        "", "Names in that header that may act, separated by blanks; * for all."
    )
    serve_teams: str = _setting(
        "",
        "Names in that header with their teams, NAME=TEAM separated by blanks; NAME=* sees all "
        "groups, and *=TEAM is for all other names. Once set, who has none sees no group.",
    )
    serve_mcp: bool = _setting(
        False, "Whether the board serves tools for agents at /mcp; it needs the extra mcp."
    )
    webserver_hosts: str = _setting(
        "",
        "Names by which browsers reach Dagster's pages, separated by blanks; loopback and "
        "addresses need none.",
    )
    debug: bool = _setting(False, "Whether a failure of a command shows its traceback.")
    ivy_settings: str = _setting("", "Ivy settings file for fetching the jars of the lab.")

    @model_validator(mode="after")
    def _computed_rows_outlive_raw_rows(self) -> "Settings":
        if self.raw_days > self.progress_days:
            raise ValueError(
                f"{PREFIX}RAW_DAYS={self.raw_days} is more than {PREFIX}PROGRESS_DAYS="
                f"{self.progress_days}: what is computed must stay at least as long"
            )
        return self

    @model_validator(mode="after")
    def _addresses_of_spark_can_be_used(self) -> "Settings":
        if holds_secret(self.spark_remote):
            raise ValueError(
                f"{PREFIX}SPARK_REMOTE holds a secret, which Dagster would record: set "
                "SPARK_CONNECT_AUTHENTICATE_TOKEN and leave it out of the address"
            )
        if self.spark_remote and not self.spark_remote.startswith("sc://"):
            raise ValueError(f"{PREFIX}SPARK_REMOTE takes sc://HOST:PORT")
        if self.spark_master and not self.spark_master.startswith(MASTERS):
            # Spark itself ends with the trace of a Java gateway that exited.
            raise ValueError(
                f"{PREFIX}SPARK_MASTER takes local[*], spark://HOST:PORT, yarn or k8s://ADDRESS"
            )
        return self

    @model_validator(mode="after")
    def _browsers_can_open_linked_pages(self) -> "Settings":
        # They become links, which must not be scripts.
        for name, address in (("DAGSTER_URL", self.dagster_url), ("BOARD_URL", self.board_url)):
            if address and not address.startswith(("http://", "https://")):
                raise ValueError(f"{PREFIX}{name} takes http://HOST:PORT or https://HOST/PATH")
        return self

    @model_validator(mode="after")
    def _samples_can_be_sent(self) -> "Settings":
        # The value may hold a login, so it is not shown.
        if self.otlp_endpoint and (reason := fault_of_endpoint(self.otlp_endpoint)):
            raise ValueError(f"{PREFIX}OTLP_ENDPOINT: {reason}")
        return self

    @field_validator("cluster")
    @classmethod
    def _a_cluster_can_have_the_name(cls, value: str) -> str:
        if value and (reason := fault_of_name(value)):
            raise ValueError(reason)
        return value

    @field_validator("broker_networks")
    @classmethod
    def _networks_can_be_read(cls, value: str) -> str:
        if value.strip():
            Networks.of(value)
        return value

    @classmethod
    def read(cls, **given: str) -> "Settings":
        """Read the environment of this process.

        Args:
            given: settings by name, in place of those of the environment, as it would word them.

        Raises:
            SettingsError: with a line for each variable that cannot be used.
        """
        if unknown := sorted(given.keys() - cls.model_fields.keys()):
            raise SettingsError(f"{PREFIX}{name.upper()} is no setting" for name in unknown)
        try:
            result = cls(**given)  # pyright: ignore
        except ValidationError as error:
            raise SettingsError(
                _mistake(error_details) for error_details in error.errors()
            ) from None
        if lines := refused(os.environ):
            raise SettingsError(lines)
        return result

    @property
    def basics(self) -> BasicSettings:
        """The settings that every command needs."""
        return BasicSettings(
            home=self.home,
            namesrv=self.namesrv,
            cluster=self.cluster,
            clusters=self.clusters,
            catalog_type=self.catalog_type,
            has_state_uri=bool(self.state_uri.get_secret_value()),
            debug=self.debug,
        )

    @property
    def history(self) -> HistorySettings:
        """The settings of history."""
        return HistorySettings(
            longest_gap=timedelta(minutes=self.gap_minutes),
            shortest_step=timedelta(seconds=self.rate_seconds),
            timeline_reach=timedelta(hours=self.timeline_hours),
            thin_after=timedelta(hours=self.thin_after_hours),
            thinned_step=timedelta(minutes=self.thinned_minutes),
            sample_validity=timedelta(minutes=self.sample_minutes),
            days=self.history_days,
        )

    @property
    def health_file(self) -> SettingsFile:
        """The file of health thresholds."""
        return SettingsFile.of(self.home, "health.yaml", self.health)

    @property
    def quality_file(self) -> SettingsFile:
        """The settings file of tolerances of expectations."""
        return SettingsFile.of(self.home, "quality.yaml", self.quality)

    @property
    def expectations_folder(self) -> SettingsFile:
        """The folder of suites that people bring."""
        return SettingsFile.of(self.home, "expectations", self.expectations)

    @property
    def capacity_file(self) -> SettingsFile:
        """The settings file of machines of consumers."""
        return SettingsFile.of(self.home, "capacity.yaml", self.capacity)

    @property
    def objectives_file(self) -> SettingsFile:
        """The file of objectives of groups."""
        return SettingsFile.of(self.home, "objectives.yaml", self.objectives)

    @property
    def owners_file(self) -> SettingsFile:
        """The file of the teams of groups."""
        return SettingsFile.of(self.home, "owners.yaml", self.owners)

    @property
    def spark(self) -> SparkSettings:
        """The settings of Spark."""
        return SparkSettings(
            remote=self.spark_remote,
            master=self.spark_master,
            driver_memory=self.driver_memory,
            jars=self.spark_jars,
            driver_host=self.driver_host,
        )

    @property
    def catalog(self) -> CatalogSettings:
        """The settings of the catalog that holds the tables."""
        return CatalogSettings(
            type=self.catalog_type,
            uri=self.catalog_uri.get_secret_value(),
            login=CatalogLogin(
                credential=self.catalog_credential.get_secret_value(),
                token=self.catalog_token.get_secret_value(),
                server=self.catalog_oauth2_uri,
                scope=self.catalog_scope,
            ),
            warehouse=self.warehouse,
            store=ObjectStore(self.s3_endpoint, self.s3_region, self.s3_path_style),
            state=self.state_uri.get_secret_value(),
            landing=self.landing,
        )

    @property
    def notifications(self) -> NotificationSettings:
        """The settings of notifications."""
        return NotificationSettings(
            urls=self.notify_urls.get_secret_value(),
            digest_urls=self.digest_urls.get_secret_value(),
            digest_every=self.digest_every,
            heartbeat_url=self.heartbeat_url.get_secret_value(),
            board_url=self.board_url,
        )

    @property
    def metrics(self) -> MetricsSettings:
        """The families of metrics that are exported."""
        return MetricsSettings(
            native=self.metrics_native,
            exporter=self.metrics_exporter,
            own=self.metrics_own,
            queues=self.metrics_queues,
        )

    @property
    def otlp(self) -> OtlpSettings | None:
        """Where metrics are sent by OTLP; None where no collector is named."""
        if not self.otlp_endpoint:
            return None
        return OtlpSettings(
            endpoint=self.otlp_endpoint,
            headers_file=Path(self.otlp_headers_file) if self.otlp_headers_file else None,
            seconds=self.otlp_seconds,
        )


def variable_of(field: str) -> str:
    """Return the variable that sets a field of `Settings`."""
    return PREFIX + field.upper()


def _mistake(detail: ErrorDetails) -> str:
    if not detail["loc"]:
        return str(detail.get("ctx", {})["error"])
    name = str(detail["loc"][0])
    variable = name if name.startswith(PREFIX) else variable_of(name)
    takes = TAKES.get(detail["type"], detail["msg"])
    return f"{variable} is {detail['input']!r}: it takes {takes}"
