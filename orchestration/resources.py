"""The resources of the definitions, made of the settings that the process has read."""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from functools import cache
from typing import Any

import dagster as dg

from assets.resources import (
    ClientMachineResource,
    CollectorResource,
    HealthResource,
    LakeResource,
    ObjectivesResource,
    QualityResource,
    RulesResource,
)
from assets.run import run_resource
from orchestration.instance.runs import RunHistory
from spark.session import engine
from spark.session.configuration import LOCAL_MASTER, SparkResource, password_file, session_config
from tidemark.alerting.rules.files import rules_path
from tidemark.lake.catalog_config import CatalogConfig
from tidemark.lake.retention import Retention
from tidemark.settings.environment import Settings


def resources(settings: Settings) -> dict[str, Any]:
    """Return all resources by name.

    A run's configuration overrides none of them. Otherwise a user who may launch a run could make
    it read and execute foreign files, or write to them. Nor does Dagster show the values.
    """
    home, health, quality = settings.home, settings.health_file, settings.quality_file
    capacity, suites = settings.capacity_file, settings.expectations_folder
    objectives = settings.objectives_file
    catalog = CatalogConfig.of(home, settings.catalog)
    return {
        "lake": _fixed(
            lambda: LakeResource(
                home=str(home.path),
                run_minutes=settings.run_minutes,
                history_settings=settings.history,
                catalog=catalog,
            ),
            is_shared=True,
        ),
        "retention": Retention(
            raw=settings.raw_days, progress=settings.progress_days, alerts=settings.alert_days
        ),
        "run_history": RunHistory(timedelta(days=settings.run_history_days)),
        "collector": _fixed(
            lambda: CollectorResource(
                namesrv=settings.namesrv,
                cluster=settings.cluster,
                clusters=settings.clusters,
                incident_stacks=settings.incident_stacks,
            )
        ),
        "alert_rules": _fixed(
            lambda: RulesResource(
                path=str(rules_path(settings.rules)),
                docs_url=settings.docs_url,
                owners_path=str(settings.owners_file.path),
            )
        ),
        "health": _fixed(lambda: HealthResource(path=str(health.path), required=health.required)),
        "quality_settings": _fixed(
            lambda: QualityResource(
                path=str(quality.path),
                required=quality.required,
                folder=str(suites.path),
                folder_required=suites.required,
            )
        ),
        "client_machine": _fixed(
            lambda: ClientMachineResource(
                cores=settings.client_cores,
                compute_ms=settings.client_compute_ms,
                use_percent=settings.client_use_percent,
                fewest_messages=settings.client_messages,
                path=str(capacity.path),
                required=capacity.required,
            )
        ),
        "objectives": _fixed(
            lambda: ObjectivesResource(path=str(objectives.path), required=objectives.required)
        ),
        "notification_settings": settings.notifications,
        "run": run_resource,
        "spark": _fixed(lambda: SparkResource(spark_config=spark_config(settings, of_run=True))),
    }


def _fixed(
    make: Callable[[], dg.ConfigurableResource], *, is_shared: bool = False
) -> dg.ResourceDefinition:
    """Return a resource that takes no configuration from runs.

    Args:
        make: returns the resource of each run; its life cycle is kept.
        is_shared: whether evaluations of sensors and schedules, a dozen a minute, share one. To
            open the catalog takes a third of an evaluation.
    """
    of_evaluations = cache(make)

    @contextmanager
    def made(context: dg.InitResourceContext) -> Iterator[dg.ConfigurableResource]:
        resource = of_evaluations() if is_shared and context.run is None else make()
        with resource.yield_for_execution(context) as resource:
            yield resource

    return dg.ResourceDefinition(made, config_schema={})


def spark_config(settings: Settings, *, of_run: bool = False) -> dict[str, str]:
    """Return the settings by which a run, or a command beside a run, finds its Spark.

    They name the Spark Connect server of the settings. Without one they name the engine, when it
    runs on the master of the settings, or else a Spark driver in the process itself. The token of
    the engine, or the name of a file with the password of the catalog, goes into the environment of
    this process. So each run calls this, and definitions do not.
    """
    spark = settings.spark
    remote = spark.remote or None
    engine_of_home = None if remote else engine.running(settings.home)
    if engine_of_home and engine_of_home.master == (spark.master or LOCAL_MASTER):
        engine_of_home.admit()
        remote = engine_of_home.shared if of_run else engine_of_home.remote
    catalog = CatalogConfig.of(settings.home, settings.catalog)
    if not remote:
        os.environ.update(password_file(settings.home, catalog))
    return session_config(catalog, remote=remote, settings=spark)
