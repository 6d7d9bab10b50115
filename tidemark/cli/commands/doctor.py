"""`tidemark doctor` and `config`: checks of the machine, settings and brokers; every setting."""

import asyncio
import logging
import os
import socket
import sys
import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import typer

from tidemark.cli.invocation import CommandError, MistakesError, NamesrvOption, invocation
from tidemark.cli.output import Format, print_rows, to_json
from tidemark.model.snapshots import SnapshotStatus
from tidemark.settings.basics import SettingsError

if TYPE_CHECKING:
    from tidemark.rocketmq.records import Snapshot
    from tidemark.rocketmq.snapshot.target import ClusterTarget
    from tidemark.settings.environment import Settings

app = typer.Typer()

UI_PORT = 3000

SPARK_SECONDS = 180.0
"""Longest time of the check of Spark: a driver starts, and may fetch its jars before."""

_FILES = "TIDEMARK_WAREHOUSE, TIDEMARK_S3_ENDPOINT"


@app.command()
def doctor(namesrv: NamesrvOption = "") -> None:
    """Check Python, Java, settings, home, catalog, clock, Spark, Dagster, rules and brokers.

    Where data is kept a little is written, read and deleted. Exit 1 when a check fails.
    """
    from tidemark.cli.checks import Check

    _mute_libraries()
    first = [
        Check(name="python", run=_python),
        Check(name="java", run=_java),
        Check(name="ui port", run=_port),
        Check(name="settings", run=_settings),
        Check(name="home", run=_home, uses="TIDEMARK_HOME"),
    ]
    backends = [
        Check(name="catalog", run=_catalog, uses=f"TIDEMARK_CATALOG_URI, {_FILES}"),
        Check(name="state", run=_state, uses="TIDEMARK_STATE_URI, TIDEMARK_CATALOG_URI"),
        Check(name="clock", run=_clock),
        Check(name="landing", run=_landing, uses=f"TIDEMARK_LANDING, {_FILES}"),
        Check(
            name="spark",
            run=_spark,
            uses="TIDEMARK_SPARK_REMOTE, TIDEMARK_SPARK_MASTER",
            seconds=SPARK_SECONDS,
        ),
        Check(name="dagster", run=_dagster, uses="the storage in dagster.yaml of DAGSTER_HOME"),
    ]
    files = [
        Check(name="rules", run=_rules),
        Check(name="notices", run=_notices),
        Check(name="health", run=_health),
        Check(name="quality", run=_quality),
        Check(name="suites", run=_suites),
        Check(name="capacity", run=_capacity),
        Check(name="objectives", run=_objectives),
        Check(name="owners", run=_owners),
    ]
    brokers = Check(
        name="brokers", run=lambda: _brokers(namesrv), uses="TIDEMARK_NAMESRV, clusters.yaml"
    )
    passed = [check.passes() for check in first]
    if all(passed[-2:]):
        passed += [check.passes() for check in (*backends, *files)]
    else:
        left_out = ", ".join(check.name for check in (*backends, *files))
        typer.echo(f"      not checked without settings and home: {left_out}")
    passed.append(brokers.passes())
    if not all(passed):
        raise typer.Exit(1)


def _mute_libraries() -> None:
    """Keep libraries from printing each attempt, because the line of the check has the result."""
    logging.disable(logging.WARNING)
    warnings.simplefilter("ignore")
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")  # read when gRPC is imported


def _python() -> str:
    return f"Python {sys.version.split()[0]}"


def _java() -> str:
    from tidemark.lab.jars import OLDEST, find

    return f"{find('java')}, {OLDEST} or newer"


def _port() -> str:
    with socket.socket() as probe:
        probe.settimeout(1)
        taken = probe.connect_ex(("127.0.0.1", UI_PORT)) == 0
    return f"127.0.0.1:{UI_PORT} is " + ("in use, by Dagster's UI?" if taken else "free")


def _settings() -> str:
    # Each check would report the same mistake of the catalog's settings.
    invocation().catalog()
    return f"{len(invocation().settings.model_fields_set)} set"


def _home() -> str:
    from tidemark.cli.checks import check_home

    return check_home(invocation().home)


def _catalog() -> str:
    from tidemark.cli.checks import check_catalog

    return check_catalog(invocation().lake)


def _state() -> str:
    from tidemark.alerting.delivery.silences import silences
    from tidemark.cli.checks import check_state

    state = check_state(invocation().lake)
    return f"{state}, {len(silences(invocation().lake.shared.state))} silences"


def _clock() -> str:
    from tidemark.cli.checks import check_clock

    return check_clock(invocation().lake.config)


def _landing() -> str:
    from tidemark.cli.checks import check_landing

    return check_landing(invocation().landing)


def _spark() -> str:
    from tidemark.cli.checks import check_spark

    return check_spark(invocation().settings)


def _dagster() -> str:
    from tidemark.cli.checks import check_dagster

    return check_dagster(invocation().settings)


def _rules() -> str:
    from tidemark.alerting.rules.files import load_rules, rules_path

    path = rules_path(invocation().settings.rules)
    return f"{len(load_rules(path))} rules in {path}"


def _notices() -> str:
    from tidemark.alerting.delivery.receivers import open_channels
    from tidemark.alerting.rules.files import read_rule_set, rules_path

    settings = invocation().settings
    receivers = read_rule_set(rules_path(settings.rules)).routing.used_receivers
    channels, mistakes = open_channels(settings.notifications, receivers)
    if mistakes:
        raise MistakesError(mistakes)
    return "to " + ", ".join(
        f"{channel.name} every {channel.every}" if channel.every else channel.name
        for channel in channels
    )


def _health() -> str:
    from tidemark.settings.health import read

    file = invocation().settings.health_file
    overrides, mistakes = read(file.path, required=file.required)
    if mistakes:
        raise MistakesError(mistakes)
    return (
        f"{len(overrides)} entries in {file.path}"
        if not file.missing
        else "the same for all groups"
    )


def _quality() -> str:
    from expectations.tolerances import read

    file = invocation().settings.quality_file
    tolerances, mistakes = read(file.path, required=file.required)
    if mistakes:
        raise MistakesError(mistakes)
    return (
        f"{len(tolerances)} entries in {file.path}"
        if not file.missing
        else "every rule as it is declared"
    )


def _suites() -> str:
    from expectations.brought_suites import read

    folder = invocation().settings.expectations_folder
    brought_expectations, mistakes = read(folder.path, required=folder.required)
    if mistakes:
        raise MistakesError(mistakes)
    if folder.missing:
        return "none besides Tidemark's own"
    count = sum(map(len, brought_expectations.values()))
    return f"{count} expectations of {len(brought_expectations)} tables in {folder.path}"


def _capacity() -> str:
    from tidemark.settings.owners import read_machines

    file = invocation().settings.capacity_file
    machine_overrides, mistakes = read_machines(file.path, required=file.required)
    if mistakes:
        raise MistakesError(mistakes)
    return (
        f"{len(machine_overrides)} entries in {file.path}"
        if not file.missing
        else "the same for all groups"
    )


def _objectives() -> str:
    from tidemark.settings.objectives import read

    file = invocation().settings.objectives_file
    objectives, mistakes = read(file.path, required=file.required)
    if mistakes:
        raise MistakesError(mistakes)
    return "none is declared" if file.missing else f"{len(objectives)} in {file.path}"


def _owners() -> str:
    from tidemark.settings.owners import Owners, read

    file = invocation().settings.owners_file
    entries, mistakes = read(file.path, required=file.required)
    if mistakes:
        raise MistakesError(mistakes)
    if file.missing:
        return "no group has a team"
    return f"{len(entries)} entries of {len(Owners(entries).teams)} teams in {file.path}"


def _brokers(namesrv: str) -> str:
    from tidemark.cli.snapshot_command import clusters, problem_lines, target_of
    from tidemark.settings.clusters import clusters_file

    home = invocation().home
    basics = invocation().basics
    if not (namesrv or basics.namesrv) and clusters_file(home, basics.clusters) is None:
        return "no request: give --namesrv HOST:PORT or set TIDEMARK_NAMESRV"
    targets: list[ClusterTarget] = []
    failed: list[str] = []
    for cluster in clusters(home, namesrv):
        try:
            targets.append(target_of(cluster))
        except SettingsError as error:
            failed.append(f"{cluster.key}: {error}")
    snapshots = _side_by_side(targets)
    failed += [
        f"{item.cluster} {item.status}: {problem_lines(item)[0]}"
        for item in snapshots
        if item.status != SnapshotStatus.COMPLETE
    ]
    if failed:
        raise CommandError("; ".join(failed))
    return "; ".join(_seen(snapshot) for snapshot in snapshots)


def _side_by_side(targets: "Sequence[ClusterTarget]") -> "list[Snapshot]":
    """Take a snapshot of each cluster; one that does not respond delays no other."""
    from tidemark.rocketmq.collector import collect

    snapshots: list[Snapshot] = []

    async def take_all() -> None:
        snapshots.extend(await asyncio.gather(*(collect(target) for target in targets)))

    asyncio.run(take_all())
    return snapshots


def _seen(snapshot: "Snapshot") -> str:
    versions = sorted({row.version or "?" for row in snapshot.brokers})
    return (
        f"{snapshot.cluster}: {snapshot.brokers_answered} of {snapshot.brokers_expected} answered "
        f"in {snapshot.duration_ms} ms, {', '.join(versions)}, {snapshot.transport}"
    )


config_app = typer.Typer()

SETTING_COLUMNS = ("name", "value", "source", "unit", "description")

HOME_FILES = {
    **{
        name: f"{name}.yaml"
        for name in ("clusters", "health", "quality", "capacity", "objectives", "owners")
    },
    "expectations": "expectations",
}
"""Fields of `Settings` that name a file or folder, and that of the home that counts without."""

MASK = "***"


@config_app.command()
def config(format: Format = Format.table) -> None:
    """Print each setting: value, source (environment, home file, default), unit, description."""
    rows = setting_rows(invocation().settings)
    if format is Format.json:
        typer.echo(to_json(rows))
    else:
        print_rows(rows, SETTING_COLUMNS, nothing="There is no setting.")


def setting_rows(settings: "Settings") -> list[dict[str, Any]]:
    """Return a row per setting; the value of a secret is masked."""
    from pydantic import SecretStr

    from tidemark.settings.environment import variable_of

    rows = []
    for name, field in type(settings).model_fields.items():
        value, source = getattr(settings, name), "default"
        if name in settings.model_fields_set:
            source = "environment"
        elif name in HOME_FILES and (settings.home.path / HOME_FILES[name]).exists():
            value, source = str(settings.home.path / HOME_FILES[name]), "home file"
        is_secret = isinstance(value, SecretStr)
        if isinstance(value, SecretStr):
            value = MASK if value.get_secret_value() else None
        extra = field.json_schema_extra
        rows.append(
            {
                "name": variable_of(name),
                "value": _shown(value),
                "source": source,
                "unit": (extra.get("unit") or None) if isinstance(extra, dict) else None,
                "secret": is_secret,
                "description": field.description,
            }
        )
    return rows


def _shown(value: Any) -> Any:
    from tidemark.settings.home import Home

    if isinstance(value, Home):
        return str(value.path)
    if isinstance(value, bool):
        return "on" if value else "off"
    return None if value == "" else value
