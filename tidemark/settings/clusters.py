"""Clusters to collect, their names and limits: from a file, or one by its name servers.

The module is light on purpose: the rules of the file (`tidemark.settings.clusters_file`) are
imported only when there is a file. Secrets are read when a snapshot starts and live no longer than
it; a `Cluster` only knows where they are.
"""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path

from tidemark.rocketmq.snapshot.target import ClusterTarget, DeepOptions, Remembered
from tidemark.rocketmq.wire.endpoint import Networks
from tidemark.rocketmq.wire.security import Credentials, Security, Tls
from tidemark.settings.errors import SettingsError
from tidemark.settings.home import Home
from tidemark.settings.secrets import is_placeholder

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
            from tidemark.settings.clusters_file import read_credentials

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
        from tidemark.settings.clusters_file import load_clusters

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
