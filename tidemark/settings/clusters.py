"""Clusters to collect: from a file, or one by its name servers, and the place of their accounts.

::

    clusters:
    - name: orders                        # Tidemark's name of it
      namesrv: [10.0.0.1:9876, 10.0.0.2:9876]
      cluster: DefaultCluster             # RocketMQ's own name, where name servers list several
      acl: {access_key_env: ORDERS_ACCESS_KEY, secret_key_env: ORDERS_SECRET_KEY}
      tls: {ca: ca.pem, cert: client.pem, key: client.key}
      every: 10s
      deep_every: 10m                     # or off
      client_reports: false
      deep_limits: {max_clients: 300}     # see tidemark.rocketmq.snapshot.target
    - name: billing
      namesrv: 10.1.0.1:9876
      acl: {secret_file: billing-account.yaml}   # accessKey and secretKey, as conf/tools.yml
      proxies: [10.1.0.9:8080]            # remoting ports of RocketMQ proxies in cluster mode
      broker_metrics: true                # compare with the brokers' endpoints for Prometheus
      message_lookup: true                # show which message blocks a queue, without its body
      max_requests: 5000
      networks: [10.1.0.0/16]             # no other address gets a connection or the account

Files are named from the folder of the settings file. A secret itself cannot be written here:
secrets are read when a snapshot starts and live no longer than it.
"""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any

import yaml
from pydantic import (
    AfterValidator,
    AliasChoices,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    model_validator,
)
from pydantic_core import ErrorDetails

from tidemark.rocketmq.snapshot.target import ClusterTarget, DeepOptions, Remembered
from tidemark.rocketmq.wire.addresses import Networks, split_endpoint
from tidemark.rocketmq.wire.security import Credentials, Security, Tls
from tidemark.settings.basics import SettingsError
from tidemark.settings.home import Home
from tidemark.settings.secrets import is_placeholder
from tidemark.settings.times import positive_seconds
from tidemark.settings.yaml_documents import Place, read_items, reason

LONGEST = 100
"""Characters, as the file of clusters takes them."""

LONGEST_BYTES = 200
"""Bytes. The folder of a snapshot adds 28 to it, and a file system takes 255."""


def fault_of_name(name: str) -> str | None:
    """Return why a cluster cannot have a name, in a few words; None where it can."""
    if not name.strip():
        return "a name without a visible character"
    if any("\ud800" <= char <= "\udfff" for char in name):
        return "a name that is no UTF-8"
    if len(name) > LONGEST:
        return f"a name of {len(name)} characters, {name[:20]!r}...: {LONGEST} are the most"
    if _bytes_in_path(name) > LONGEST_BYTES:
        return f"a name that takes more than {LONGEST_BYTES} bytes in a path, {name[:20]!r}..."
    return None


def _bytes_in_path(name: str) -> int:
    # Characters that no folder may have are written as three.
    odd = sum(char in "%/\x7f" or char < " " for char in name)
    return len(name.encode()) + 2 * odd


NETWORKS = "TIDEMARK_BROKER_NETWORKS"
"""The variable with the networks of all clusters that have none of their own."""

MESSAGE_LOOKUP = "TIDEMARK_MESSAGE_LOOKUP"
"""The variable that allows lookups of messages for all clusters without a setting of their own."""

ON = ("1", "true", "t", "yes", "y", "on")
"""Words of a variable that switches something on, as pydantic takes them."""

SHORTEST = 1.0
"""Least seconds between two snapshots: a cluster is not read more often than that."""

DEEP_EVERY = 300.0
"""Seconds between two deep snapshots: each takes a request per counter, client and sample."""

EARLY = 0.05
"""Share of ``deep_every`` by which a deep snapshot may be early. Starts of snapshots vary, and one
that is a moment too early would otherwise delay the deep one by a whole interval."""


@dataclass(frozen=True, kw_only=True)
class Account:
    """The place of a cluster's account: two variables, or a file.

    Attributes:
        place: ``FILE:LINE: FIELD`` of these settings, for messages. Messages never contain the
            value there, nor the variable's name: a person may have written the secret in its place.
        access_key_env: environment variable with the access key.
        secret_key_env: environment variable with the secret key.
        secret_file: a file with ``accessKey`` and ``secretKey``, as RocketMQ's own
            ``conf/tools.yml``.
    """

    place: str = field(compare=False)
    access_key_env: str | None = None
    secret_key_env: str | None = None
    secret_file: str | None = None

    def credentials(self, environment: Mapping[str, str] = os.environ) -> Credentials:
        """Return the account that its place has now.

        Raises:
            SettingsError: it is not there.
        """
        if self.secret_file is not None:
            return read_credentials(Path(self.secret_file), self.place)
        mapping = {}
        for name in ("access_key_env", "secret_key_env"):
            mapping[name] = environment.get(getattr(self, name) or "", "")
            if not mapping[name]:
                raise SettingsError(
                    [f"{self.place}.{name}: this environment variable is not set, or empty"]
                )
            if not _is_utf8(mapping[name]):
                raise SettingsError([f"{self.place}.{name}: this environment variable is no UTF-8"])
            if is_placeholder(mapping[name]):
                raise SettingsError([f"{self.place}.{name}: this variable holds a placeholder"])
        return Credentials(mapping["access_key_env"], mapping["secret_key_env"])


@dataclass(frozen=True, kw_only=True)
class Cluster:
    """One configured cluster.

    Attributes:
        namesrv: name servers, ``host:port``, which all get requests.
        name: Tidemark's name of it; None for its own name.
        cluster: RocketMQ's name of it, where the name servers list several.
        proxies: remoting ports of its proxies, ``host:port``.
        acl: the place of its account, None where it needs none.
        tls: the encryption of connections, None for plain ones.
        every: seconds between snapshots of ``tidemark collect --every``, instead of the command's.
        limits: timeouts and budgets, as `ClusterTarget` names them.
        deep_every: seconds between deep snapshots, 0 for none at all.
        client_reports: whether a deep snapshot also requests client reports (307, 223).
        deep_limits: limits of deep snapshots, as `DeepOptions` names them.
        broker_metrics: whether a deep snapshot also reads the brokers' endpoints for Prometheus.
        message_lookup: whether the properties of a message that blocks a queue may be looked up
            (33); None for what the environment has for all clusters.
        networks: the only networks that are connected to; None for those of the environment.
        others: keys of configured clusters that share no name server with this one.
    """

    namesrv: tuple[str, ...]
    name: str | None = None
    cluster: str | None = None
    acl: Account | None = None
    tls: Tls | None = None
    every: float | None = None
    limits: Mapping[str, float | int] | None = None
    deep_every: float = DEEP_EVERY
    client_reports: bool = True
    proxies: tuple[str, ...] = ()
    deep_limits: Mapping[str, int] | None = None
    broker_metrics: bool = False
    networks: Networks | None = None
    message_lookup: bool | None = None
    others: tuple[str, ...] = field(default=(), compare=False)

    @property
    def key(self) -> str:
        """The key of this cluster among all configured ones: its name, else its name servers."""
        return self.name or ";".join(self.namesrv)

    def deep(self, last: datetime | None, now: datetime, turn: int) -> DeepOptions | None:
        """Return how deep a snapshot is now, None where it is not deep.

        Args:
            last: when the last deep snapshot started, None before the first.
            now: when this snapshot starts.
            turn: how many deep snapshots there were.
        """
        if not self.deep_every:
            return None
        due_after = self.deep_every * (1 - EARLY)
        # A clock that was set back must not delay deep snapshots until it has caught up.
        if last is not None and 0 <= (now - last).total_seconds() < due_after:
            return None
        options = DeepOptions(
            client_reports=self.client_reports, broker_metrics=self.broker_metrics, turn=turn
        )
        return replace(options, **dict(self.deep_limits or {}))

    def looks_up_messages(self, environment: Mapping[str, str] = os.environ) -> bool:
        """Return whether messages may be looked up, by this cluster's setting or for all."""
        if self.message_lookup is not None:
            return self.message_lookup
        return environment.get(MESSAGE_LOOKUP, "").strip().lower() in ON

    def target(
        self,
        remembered: tuple[Remembered, ...] = (),
        environment: Mapping[str, str] = os.environ,
        kin: tuple[tuple[Remembered, ...], ...] = (),
    ) -> ClusterTarget:
        """Return the target of the collector, with the secrets as they are now.

        Raises:
            SettingsError: the account is not where the settings point.
        """
        target = ClusterTarget(
            name_servers=self.namesrv,
            name=self.name,
            cluster=self.cluster,
            remembered=remembered,
            kin=kin,
            proxies=self.proxies,
            security=self.security(environment),
        )
        return replace(target, **dict(self.limits or {}))

    def security(self, environment: Mapping[str, str] = os.environ) -> Security:
        """Account, encryption and networks, with the secrets as they are now.

        Raises:
            SettingsError: the account is not where the settings point, or the environment names no
                networks where it should.
        """
        networks = self.networks or networks_of(environment)
        credentials = self.acl.credentials(environment) if self.acl else None
        return Security(credentials, self.tls, networks)


def networks_of(environment: Mapping[str, str]) -> Networks | None:
    """Return the networks that the environment limits connections to; None for any.

    Raises:
        SettingsError: they cannot be read. Then nothing is connected to.
    """
    text = environment.get(NETWORKS, "")
    try:
        return Networks.of(text) if text.strip() else None
    except ValueError as error:
        raise SettingsError([f"{NETWORKS}: {error}"]) from None


def _among(cluster: Cluster, clusters: Sequence[Cluster]) -> Cluster:
    """Return a cluster with the keys of those that share none of its name servers."""
    servers = set(cluster.namesrv)
    others = (cluster.key for cluster in clusters if servers.isdisjoint(cluster.namesrv))
    return replace(cluster, others=tuple(others))


def _is_utf8(text: str) -> bool:
    """Return whether a variable's bytes were UTF-8; Python replaces others by surrogates."""
    return not any("\ud800" <= char <= "\udfff" for char in text)


def clusters_file(home: Home, path: str | None = None) -> Path | None:
    """Return the settings file: the named one, else ``clusters.yaml`` of the home if it exists."""
    default = home.path / "clusters.yaml"
    return Path(path) if path else default if default.exists() else None


def configured(
    home: Home, namesrv: str = "", name: str = "", path: str | None = None
) -> list[Cluster]:
    """Return the clusters to collect.

    Args:
        home: the home, which may contain ``clusters.yaml``.
        namesrv: name servers separated by ``;``. Then only the cluster there is collected, with the
            settings of the file's clusters that have one of these name servers, if there are any.
        name: the cluster to select of the file; with `namesrv`, the name of the cluster there where
            the file has none.
        path: the settings file, TIDEMARK_CLUSTERS.

    Returns:
        The clusters; none when nothing is configured.

    Raises:
        SettingsError: the file cannot be used or lacks the named cluster, or no cluster can have
            the name.
    """
    if name and (reason := fault_of_name(name)):
        raise SettingsError([f"TIDEMARK_CLUSTER: {reason}"])
    file = clusters_file(home, path)
    known: list[Cluster] = []
    if file is not None:
        file_clusters = load_clusters(file)
        known = [_among(cluster, file_clusters) for cluster in file_clusters]
    chosen = [cluster for cluster in known if name in ("", cluster.name)]
    servers = tuple(part.strip() for part in namesrv.split(";") if part.strip())
    if servers:
        lent = [cluster for cluster in chosen if not set(servers).isdisjoint(cluster.namesrv)]
        return lent or [Cluster(namesrv=servers, name=name or None)]
    if known and not chosen:
        names = ", ".join(cluster.key for cluster in known)
        raise SettingsError([f"{file}: no cluster {name!r}, only {names}"])
    return chosen


def _one_or_many(value: Any) -> Any:
    return [value] if isinstance(value, str) else value


def _endpoint(text: str) -> str:
    split_endpoint(text)
    return text.strip()


def _networks(value: Any) -> Any:
    parts = _one_or_many(value)
    if not isinstance(parts, list) or not all(isinstance(part, str) for part in parts):
        raise ValueError("a network like 10.0.0.0/8, or a list of them, is wanted")
    return Networks.of(" ".join(parts))


def _span_or_never(value: Any) -> Any:
    # YAML reads a bare `off` as false.
    return 0.0 if value is False or value in ("off", "0", 0) else positive_seconds(value)


Variable = Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")]
Text = Annotated[str, Field(min_length=1)]
Seconds = Annotated[float, Field(gt=0, allow_inf_nan=False), BeforeValidator(positive_seconds)]
Count = Annotated[int, Field(ge=1)]
Limit = Annotated[int, Field(ge=0)]
Endpoints = Annotated[
    list[Annotated[str, AfterValidator(_endpoint)]],
    BeforeValidator(_one_or_many),
    Field(min_length=1),
]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class AclSettings(_Strict):
    """The place of the account; see `tidemark.settings.clusters.Account`."""

    access_key_env: Variable | None = None
    secret_key_env: Variable | None = None
    secret_file: Text | None = None

    @model_validator(mode="after")
    def _one_way(self) -> "AclSettings":
        variables = (self.access_key_env, self.secret_key_env)
        if all(variables) == bool(self.secret_file) or any(variables) != all(variables):
            raise ValueError("give access_key_env and secret_key_env, or secret_file alone")
        return self


ACCOUNT_NAMES = frozenset(
    {*AclSettings.model_fields, "access_key", "secret_key", "accessKey", "secretKey"}
    | {"security_token", "securityToken"}
)
"""Keys within ``acl`` that messages may show: another one may be the secret itself."""


class TlsSettings(_Strict):
    """The encryption of connections; see `tidemark.rocketmq.wire.security.Tls`."""

    ca: Text | None = None
    cert: Text | None = None
    key: Text | None = None
    verify: bool = True
    server_name: Text | None = None

    @model_validator(mode="after")
    def _key_of_what(self) -> "TlsSettings":
        if self.key and not self.cert:
            raise ValueError("key without cert")
        return self


class Limits(_Strict):
    """Timeouts and budgets; `tidemark.rocketmq.snapshot.target.ClusterTarget` has the defaults."""

    connect_timeout: Seconds | None = None
    request_timeout: Seconds | None = None
    total_timeout: Seconds | None = None
    in_flight: Count | None = None
    max_requests: Count | None = None
    max_brokers: Count | None = None
    max_mib: Count | None = None
    max_lite_topics: Limit | None = None


class DeepLimits(_Strict):
    """Limits of deep snapshots, as `DeepOptions` describes them."""

    max_clients: Limit | None = None
    max_stats: Limit | None = None
    max_tag_requests: Limit | None = None
    max_consume_stats: Limit | None = None
    max_store_times: Limit | None = None


def _withdrawn(_: object) -> None:
    raise ValueError("one process is faster than tasks of Spark were: remove this field")


class ClusterSettings(Limits):
    """One entry of the file; see `tidemark.settings.clusters.Cluster`."""

    # It names a folder of landing, and a file of the collector's memory.
    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$", max_length=LONGEST)]
    namesrv: Endpoints
    proxies: Endpoints | None = None
    cluster: Text | None = None
    acl: AclSettings | None = None
    tls: TlsSettings | None = None
    every: Annotated[Seconds, Field(ge=SHORTEST)] | None = None
    deep_every: Annotated[
        float, Field(ge=0, allow_inf_nan=False), BeforeValidator(_span_or_never)
    ] = DEEP_EVERY
    # Files of 0.1 have the older name.
    client_reports: bool = Field(
        default=True, validation_alias=AliasChoices("client_reports", "ask_clients")
    )
    broker_metrics: bool = False
    message_lookup: bool | None = None
    networks: Annotated[Networks | None, BeforeValidator(_networks)] = None
    deep_limits: DeepLimits = Field(default_factory=DeepLimits)
    spark_tasks: Annotated[None, BeforeValidator(_withdrawn)] = None


def load_clusters(file: Path) -> list[Cluster]:
    """Return the clusters of a settings file.

    Raises:
        SettingsError: with every mistake, ``FILE:LINE: FIELD: mistake``.
    """
    mistakes: list[str] = []
    clusters: list[Cluster] = []
    places: dict[str, str] = {}
    for item in read_items(
        file,
        "clusters",
        "a cluster",
        ClusterSettings.model_validate,
        located=_located,
        words=_without_secrets,
        of=ClusterSettings,
    ):
        if isinstance(item, str):
            mistakes.append(item)
            continue
        settings, place = item.value, item.place("name")
        if settings.name in places:
            other = places[settings.name]
            mistakes.append(f"{place}: {settings.name!r} is another cluster's name ({other})")
        places.setdefault(settings.name, place)
        clusters.append(_cluster(settings, file.absolute().parent, item.place("acl")))
    if not clusters and not mistakes:
        mistakes.append(f"{file}:1: clusters: no cluster in this list")
    if mistakes:
        raise SettingsError(mistakes)
    return clusters


def read_credentials(file: Path, place: str) -> Credentials:
    """Return the account in a file with ``accessKey``, ``secretKey`` and perhaps ``securityToken``.

    Raises:
        SettingsError: it is not there; the message holds nothing of the file.
    """
    where = f"{place}.secret_file: {file}"
    try:
        # Every scalar as text: RocketMQ's own example of a secret is a number to YAML.
        keys = yaml.load(file.read_text(encoding="utf-8"), Loader=yaml.BaseLoader)
    except OSError as error:
        raise SettingsError([f"{where}: cannot be read: {error.strerror}"]) from None
    except (yaml.YAMLError, UnicodeDecodeError, RecursionError):
        raise SettingsError([f"{where}: not YAML"]) from None
    entries = []
    for name in ("accessKey", "secretKey", "securityToken"):
        value = keys.get(name) if isinstance(keys, dict) else None
        if name != "securityToken" and not (isinstance(value, str) and value):
            raise SettingsError([f"{where}: {name} is missing or empty"])
        if isinstance(value, str) and is_placeholder(value):
            raise SettingsError([f"{where}: {name} is a placeholder"])
        entries.append(value if isinstance(value, str) and value else None)
    return Credentials(*entries)


def _cluster(settings: ClusterSettings, folder: Path, acl_place: str) -> Cluster:
    def file(name: str | None) -> str | None:
        return None if name is None else str(folder / name)

    acl, tls = settings.acl, settings.tls
    if acl:
        acl = Account(
            place=acl_place,
            access_key_env=acl.access_key_env,
            secret_key_env=acl.secret_key_env,
            secret_file=file(acl.secret_file),
        )
    if tls:
        tls = Tls(
            ca=file(tls.ca),
            cert=file(tls.cert),
            key=file(tls.key),
            verify=tls.verify,
            server_name=tls.server_name,
        )
    limits = settings.model_dump(include=set(Limits.model_fields), exclude_none=True)
    return Cluster(
        namesrv=tuple(settings.namesrv),
        name=settings.name,
        cluster=settings.cluster,
        acl=acl,
        tls=tls,
        every=settings.every,
        limits=limits,
        deep_every=settings.deep_every,
        client_reports=settings.client_reports,
        proxies=tuple(settings.proxies or ()),
        deep_limits=settings.deep_limits.model_dump(exclude_none=True) or None,
        broker_metrics=settings.broker_metrics,
        networks=settings.networks,
        message_lookup=settings.message_lookup,
    )


def _located(detail: ErrorDetails) -> Place:
    """Return the place of a mistake, within an account only down to known names."""
    place = detail["loc"]
    if len(place) < 2 or place[0] != "acl" or place[1] in ACCOUNT_NAMES:
        return place
    return ("acl",)


def _without_secrets(detail: ErrorDetails) -> str:
    """Return the mistake, without any value of an account, which may be the secret itself."""
    if detail["type"] == "too_short" and detail["loc"] == ("namesrv",):
        return "empty: HOST:PORT of its name servers is wanted"
    if detail["type"] == "too_short" and detail["loc"] == ("proxies",):
        return "empty: HOST:PORT of its proxies is wanted, or leave it out where it has none"
    if _located(detail) != detail["loc"]:
        known = ", ".join(AclSettings.model_fields)
        return f"unknown field, only {known} are known here"
    return reason(detail, show="acl" not in detail["loc"])
