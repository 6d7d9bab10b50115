"""The settings that every command needs, read without the model of all settings.

`tidemark.settings.environment.Settings` declares them too, with their descriptions; importing that
takes a tenth of a second, which is a third of the time of `tidemark lag`.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass

from tidemark.settings.home import DEFAULT_HOME, Home
from tidemark.settings.variables import PREFIX

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
