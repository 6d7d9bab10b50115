"""Which clusters are looked at, and how: from a settings file, or one by its name servers.

Light on purpose: the file's own rules (`lake.cluster_settings`) are imported only when there is a
file. Secrets are read when a look begins and live no longer than it; a `Cluster` only knows where
they are.
"""

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path

from lake.home import Home
from rocketmq.deep.options import DeepOptions
from rocketmq.security import Credentials, Security, Tls
from rocketmq.target import ClusterTarget, Remembered

SHORTEST = 1.0
"""Seconds between looks at least: a cluster is not asked harder than that."""

DEEP_EVERY = 300.0
"""Seconds from one deep look to the next: it takes a question per counter, client and sample."""

EARLY = 0.05
"""How much of ``deep_every`` a deep look may come early: looks are no clockwork, and one that is a
moment too early would otherwise put it off by a whole interval of theirs."""

_UNITS = {"": 1.0, "s": 1.0, "m": 60.0, "h": 3600.0}
_DURATION = re.compile(r"(\d+(?:\.\d+)?)\s*([smh]?)")


class SettingsError(ValueError):
    """Settings that cannot be used.

    Attributes:
        mistakes: one line each.
    """

    def __init__(self, mistakes: list[str]) -> None:
        super().__init__("; ".join(mistakes))
        self.mistakes = tuple(mistakes)


@dataclass(frozen=True)
class Account:
    """Where the account of a cluster is found: two variables, or a file.

    Attributes:
        place: ``FILE:LINE: FIELD`` of these settings, for messages. They never name what was found
            there, nor the variable: somebody may have written the secret itself in its place.
        access_key_env: environment variable with the access key.
        secret_key_env: environment variable with the secret key.
        secret_file: a file with ``accessKey`` and ``secretKey``, as RocketMQ's own
            ``conf/tools.yml``.
    """

    place: str
    access_key_env: str | None = None
    secret_key_env: str | None = None
    secret_file: str | None = None

    def credentials(self, environment: Mapping[str, str] = os.environ) -> Credentials:
        """The account as it is there now.

        Raises:
            SettingsError: it is not there.
        """
        if self.secret_file is not None:
            from lake.cluster_settings import read_credentials

            return read_credentials(Path(self.secret_file), self.place)
        found = {}
        for name in ("access_key_env", "secret_key_env"):
            found[name] = environment.get(getattr(self, name) or "", "")
            if not found[name]:
                raise SettingsError(
                    [f"{self.place}.{name}: this environment variable is not set, or empty"]
                )
        return Credentials(found["access_key_env"], found["secret_key_env"])


@dataclass(frozen=True)
class Cluster:
    """One cluster to look at.

    Attributes:
        namesrv: name servers, ``host:port``, asked in this order until one answers.
        name: what Tidemark calls it; None for its own name.
        cluster: RocketMQ's name of it, where the name servers know several.
        acl: where its account is found, None where it asks for none.
        tls: how connections are encrypted, None for plain ones.
        every: seconds from look to look of ``tidemark collect --every``, instead of the command's.
        limits: timeouts and budgets, as `ClusterTarget` names them.
        deep_every: seconds from one deep look to the next, 0 for none at all.
        ask_clients: whether a deep look asks clients too (307, 223).
        spark_tasks: how many tasks of Spark share a look; 1 for this process alone.
    """

    namesrv: tuple[str, ...]
    name: str | None = None
    cluster: str | None = None
    acl: Account | None = None
    tls: Tls | None = None
    every: float | None = None
    limits: Mapping[str, float | int] | None = None
    deep_every: float = DEEP_EVERY
    ask_clients: bool = True
    spark_tasks: int = 1

    @property
    def key(self) -> str:
        """What tells this cluster from all others that are configured."""
        return self.name or ";".join(self.namesrv)

    def deep(self, last: datetime | None, now: datetime) -> DeepOptions | None:
        """How deep to look now, None for not at all.

        Args:
            last: when the last deep look was, None before the first.
            now: when this look is.
        """
        if not self.deep_every:
            return None
        due_after = self.deep_every * (1 - EARLY)
        # A clock that was set back must not put deep looks off until it has caught up.
        if last is not None and 0 <= (now - last).total_seconds() < due_after:
            return None
        return DeepOptions(ask_clients=self.ask_clients)

    def target(
        self,
        remembered: tuple[Remembered, ...] = (),
        environment: Mapping[str, str] = os.environ,
        kin: tuple[tuple[Remembered, ...], ...] = (),
    ) -> ClusterTarget:
        """What the collector is given, with the secrets as they are now.

        Raises:
            SettingsError: the account is not where the settings say.
        """
        target = ClusterTarget(
            name_servers=self.namesrv,
            name=self.name,
            cluster=self.cluster,
            remembered=remembered,
            kin=kin,
            security=self.security(environment),
        )
        return replace(target, **dict(self.limits or {}))

    def security(self, environment: Mapping[str, str] = os.environ) -> Security:
        """Account and encryption, with the secrets as they are now.

        Raises:
            SettingsError: the account is not where the settings say.
        """
        credentials = self.acl.credentials(environment) if self.acl else None
        return Security(credentials, self.tls)


def clusters_file(home: Home, path: str | None = None) -> Path | None:
    """The settings file: the one named, else ``clusters.yaml`` of the home when it is there."""
    default = home.path / "clusters.yaml"
    return Path(path) if path else default if default.exists() else None


def configured(
    home: Home, namesrv: str = "", name: str = "", path: str | None = None
) -> list[Cluster]:
    """The clusters to look at.

    Args:
        home: where ``clusters.yaml`` may lie.
        namesrv: name servers separated by ``;``. Then only what is there is looked at, with the
            settings of the file's clusters that have one of these name servers, if there are any.
        name: which of the file's clusters; without one at `namesrv`, what to call what is there.
        path: the settings file, TIDEMARK_CLUSTERS.

    Returns:
        None at all when nothing is configured.

    Raises:
        SettingsError: the file cannot be used, or does not have the one that is named.
    """
    file = clusters_file(home, path)
    known: list[Cluster] = []
    if file is not None:
        from lake.cluster_settings import load_clusters

        known = load_clusters(file)
    chosen = [cluster for cluster in known if name in ("", cluster.name)]
    servers = tuple(part.strip() for part in namesrv.split(";") if part.strip())
    if servers:
        lent = [cluster for cluster in chosen if not set(servers).isdisjoint(cluster.namesrv)]
        return lent or [Cluster(servers, name or None)]
    if known and not chosen:
        names = ", ".join(cluster.key for cluster in known)
        raise SettingsError([f"{file}: no cluster {name!r}, only {names}"])
    return chosen


def seconds(text: str) -> float:
    """``10s``, ``1.5m``, ``2h`` or a plain number of seconds.

    Raises:
        ValueError: it is none of these, or nothing at all; the message says so.
    """
    match = _DURATION.fullmatch(text.strip())
    found = float(match[1]) * _UNITS[match[2]] if match else 0.0
    if found <= 0:
        raise ValueError(f"{text!r} is no time span: write 10s, 1m or 1h")
    return found
