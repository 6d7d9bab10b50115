"""Tidemark as a part of another Dagster project, beside that project's own assets.

A project mounts it with the component `TidemarkComponent` in its YAML, or with
`tidemark_definitions` in its Python. Names of groups, jobs, schedules, sensors, pools and resources
begin with ``tidemark_`` there, so they are nobody else's. A Dagster instance has one Tidemark.
"""

from collections.abc import Mapping
from pathlib import Path

import dagster as dg

from assets.dagster_names import PREFIX
from orchestration.definitions import build
from tidemark.settings.environment import Settings


def tidemark_definitions(
    *,
    home: str | Path,
    clusters: str | Path | None = None,
    schedule: bool = False,
    settings: Mapping[str, str] | None = None,
) -> dg.Definitions:
    """Return Tidemark's definitions, to be merged with those of a project.

    The environment of the process holds all other settings, and the secrets.

    Args:
        home: the folder of all state, ``TIDEMARK_HOME``.
        clusters: the file of clusters, ``TIDEMARK_CLUSTERS``; ``clusters.yaml`` in the home unless
            set.
        schedule: whether schedules and sensors run without being switched on in Dagster's pages.
        settings: further settings by name, in place of those of the environment, as
            ``{"history_days": "7"}`` for ``TIDEMARK_HISTORY_DAYS``.

    Raises:
        SettingsError: with a line for each setting that cannot be used.
    """
    given = {
        "home": str(home),
        **({"clusters": str(clusters)} if clusters else {}),
        "schedule": "on" if schedule else "off",
        **(settings or {}),
    }
    return build(Settings.read(**given), prefix=PREFIX)


class TidemarkComponent(dg.Component, dg.Model, dg.Resolvable):
    """Watch how far the consumers of RocketMQ clusters have got, as a part of this project.

    Attributes:
        home: the folder of all state; a relative one lies beside the component's file.
        clusters: the file of clusters; ``clusters.yaml`` in the home unless set.
        schedule: whether ticks run without being switched on in Dagster's pages.
        settings: further settings by name, such as ``history_days``. Secrets belong into the
            environment.
    """

    home: str
    clusters: str | None = None
    schedule: bool = False
    settings: dict[str, bool | int | float | str] = {}  # noqa: RUF012  pydantic copies it

    def build_defs(self, context: dg.ComponentLoadContext) -> dg.Definitions:
        """Return the definitions of the component."""
        return tidemark_definitions(
            home=context.path / self.home,
            clusters=context.path / self.clusters if self.clusters else None,
            schedule=self.schedule,
            settings={name: _worded(value) for name, value in self.settings.items()},
        )


def _worded(value: bool | int | float | str) -> str:
    """Return a value of YAML as the environment words it."""
    return {True: "on", False: "off"}[value] if isinstance(value, bool) else str(value)
