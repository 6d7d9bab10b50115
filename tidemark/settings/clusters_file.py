"""The settings file of the clusters, and the files with their accounts.

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

Files are named from the folder of the settings file. A secret itself cannot be written here.
"""

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

from tidemark.rocketmq.wire.endpoint import Networks, split_endpoint
from tidemark.rocketmq.wire.security import Credentials, Tls
from tidemark.settings.clusters import DEEP_EVERY, LONGEST, SHORTEST, Account, Cluster
from tidemark.settings.errors import SettingsError
from tidemark.settings.secrets import is_placeholder
from tidemark.settings.times import positive_seconds
from tidemark.settings.yaml_documents import Place, read_items, reason


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
