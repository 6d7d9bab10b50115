"""The resources as the environment configures them.

Everything is asked of the environment at the moment a process loads its definitions, and a run is
a process of its own; so a run finds the engine that is warm now.
"""

import os
from collections.abc import Mapping
from typing import Any

from alerting.rule_files import rules_path
from assets import health_settings, quality_settings
from assets.resources import (
    ClientMachineResource,
    CollectorResource,
    HealthResource,
    LakeResource,
    QualityResource,
    RulesResource,
)
from lake.catalog import CatalogConfig
from lake.home import Home
from spark import engine
from spark.session import SparkResource, session_config


def resources(environment: Mapping[str, str] = os.environ) -> dict[str, Any]:
    """All resources by name.

    ``TIDEMARK_HOME`` where everything lies; ``TIDEMARK_NAMESRV`` name servers, ``HOST:PORT``
    separated by ``;``; ``TIDEMARK_CLUSTER`` what to call the cluster; ``TIDEMARK_CLUSTERS`` the
    settings file of several; ``TIDEMARK_RULES`` a file or folder of alert rules;
    ``TIDEMARK_HEALTH`` a file of what makes a state of health for some groups, else ``health.yaml``
    in the home; ``TIDEMARK_QUALITY`` a file of what rules tolerate, else ``quality.yaml`` there;
    ``TIDEMARK_CLIENT_CORES`` and ``TIDEMARK_CLIENT_COMPUTE_MS`` what consumers run on;
    ``TIDEMARK_SPARK_REMOTE`` a Spark Connect address; ``TIDEMARK_SPARK_MASTER`` a Spark master.
    Without the last two, the warm engine when one runs, else a Spark in the run's own process.
    """
    home = Home.of(environment.get("TIDEMARK_HOME"))
    return {
        "lake": LakeResource(home=str(home.path)),
        "collector": CollectorResource(
            namesrv=environment.get("TIDEMARK_NAMESRV", ""),
            cluster=environment.get("TIDEMARK_CLUSTER", ""),
            clusters=environment.get("TIDEMARK_CLUSTERS", ""),
        ),
        "alert_rules": RulesResource(path=str(rules_path(environment))),
        "health": HealthResource(path=str(health_settings.settings_path(home, environment))),
        "quality_settings": QualityResource(
            path=str(quality_settings.settings_path(home, environment))
        ),
        "client_machine": ClientMachineResource(
            cores=environment.get("TIDEMARK_CLIENT_CORES", ""),
            compute_ms=environment.get("TIDEMARK_CLIENT_COMPUTE_MS", ""),
        ),
        "spark": SparkResource(spark_config=spark_config(home, environment, of_run=True)),
    }


def spark_config(
    home: Home, environment: Mapping[str, str] = os.environ, *, of_run: bool = False
) -> dict[str, str]:
    """How a run finds its Spark, or a command, which may ask while a run is at work."""
    remote = environment.get("TIDEMARK_SPARK_REMOTE")
    master = environment.get("TIDEMARK_SPARK_MASTER")
    if not remote and not master:
        warm = engine.running(home)
        remote = (warm.shared if of_run else warm.remote) if warm else None
    return session_config(CatalogConfig.of(home, environment), remote=remote, master=master)
