"""`tidemark doctor`: what works here and what does not."""

import socket
import sys
from collections.abc import Callable

import typer

from lake.failures import one_line
from rocketmq.collector import collect_snapshot
from rocketmq.records import Snapshot
from tidemark.errors import CommandError
from tidemark.invocation import invocation
from tidemark.snapshot_command import NamesrvOption, clusters, problem_lines, target_of

app = typer.Typer()

UI_PORT = 3000


@app.command()
def doctor(namesrv: NamesrvOption = "") -> None:
    """Check Python, Java, catalog, landing, Spark, Dagster, rules, notices and brokers.

    Where data is kept a little is written, read and deleted. Exit 1 when a check fails.
    """
    checks: dict[str, Callable[[], str]] = {
        "python": _python,
        "java": _java,
        "ui port": _port,
        "catalog": _catalog,
        "landing": _landing,
        "spark": _spark,
        "dagster": _dagster,
        "rules": _rules,
        "notices": _notices,
        "health": _health,
        "quality": _quality,
        "suites": _suites,
        "capacity": _capacity,
        "brokers": lambda: _brokers(namesrv),
    }
    failed = False
    for name, check in checks.items():
        try:
            typer.echo(f"ok    {name:8} {check()}")
        except Exception as error:
            failed = True
            typer.echo(f"FAIL  {name:8} {one_line(error)}")
    if failed:
        raise typer.Exit(1)


def _python() -> str:
    return f"Python {sys.version.split()[0]}"


def _java() -> str:
    from lab.java import OLDEST, find

    return f"{find('java')}, {OLDEST} or newer"


def _port() -> str:
    with socket.socket() as probe:
        probe.settimeout(1)
        taken = probe.connect_ex(("127.0.0.1", UI_PORT)) == 0
    return f"127.0.0.1:{UI_PORT} is " + ("in use, by Dagster's UI?" if taken else "free")


def _catalog() -> str:
    from tidemark.backend_checks import check_catalog, check_writable

    check_writable(invocation().lake)
    return check_catalog(invocation().lake)


def _landing() -> str:
    from tidemark.backend_checks import check_landing

    return check_landing(invocation().landing)


def _spark() -> str:
    from tidemark.backend_checks import check_spark

    return check_spark(invocation().settings)


def _dagster() -> str:
    from tidemark.backend_checks import check_dagster

    return check_dagster(invocation().settings)


def _rules() -> str:
    from alerting.rules.files import load_rules, rules_path

    path = rules_path(invocation().settings.rules)
    return f"{len(load_rules(path))} rules in {path}"


def _notices() -> str:
    from alerting.delivery.receivers import open_channels
    from alerting.rules.files import read_rule_set, rules_path

    settings = invocation().settings
    receivers = read_rule_set(rules_path(settings.rules)).routing.used_receivers
    channels, mistakes = open_channels(settings.notifications, receivers)
    if mistakes:
        raise CommandError("; ".join(mistakes))
    return "to " + ", ".join(
        f"{each.name} every {each.every}" if each.every else each.name for each in channels
    )


def _health() -> str:
    from settings.health_file import read

    file = invocation().settings.health_file
    found, mistakes = read(file.path, required=file.required)
    if mistakes:
        raise CommandError("; ".join(mistakes))
    return f"{len(found)} entries in {file.path}" if not file.missing else "the same for all groups"


def _quality() -> str:
    from expectations.tolerances import read

    file = invocation().settings.quality_file
    found, mistakes = read(file.path, required=file.required)
    if mistakes:
        raise CommandError("; ".join(mistakes))
    return (
        f"{len(found)} entries in {file.path}"
        if not file.missing
        else "every rule as it is declared"
    )


def _suites() -> str:
    from expectations.brought_suites import read

    folder = invocation().settings.expectations_folder
    found, mistakes = read(folder.path, required=folder.required)
    if mistakes:
        raise CommandError("; ".join(mistakes))
    if folder.missing:
        return "none besides Tidemark's own"
    count = sum(len(each) for each in found.values())
    return f"{count} expectations of {len(found)} tables in {folder.path}"


def _capacity() -> str:
    from settings.machines_file import read

    file = invocation().settings.capacity_file
    found, mistakes = read(file.path, required=file.required)
    if mistakes:
        raise CommandError("; ".join(mistakes))
    return f"{len(found)} entries in {file.path}" if not file.missing else "the same for all groups"


def _brokers(namesrv: str) -> str:
    from settings.clusters import clusters_file

    home = invocation().home
    basics = invocation().basics
    if not (namesrv or basics.namesrv) and clusters_file(home, basics.clusters) is None:
        return "no request: give --namesrv HOST:PORT or set TIDEMARK_NAMESRV"
    snapshots = [collect_snapshot(target_of(cluster)) for cluster in clusters(home, namesrv)]
    failed = [snapshot for snapshot in snapshots if snapshot.status != "COMPLETE"]
    if failed:
        lines = [f"{item.cluster} {item.status}: {problem_lines(item)[0]}" for item in failed]
        raise CommandError("; ".join(lines))
    return "; ".join(_seen(snapshot) for snapshot in snapshots)


def _seen(snapshot: Snapshot) -> str:
    versions = sorted({row.version or "?" for row in snapshot.brokers})
    return (
        f"{snapshot.cluster}: {snapshot.brokers_answered} of {snapshot.brokers_expected} answered "
        f"in {snapshot.duration_ms} ms, {', '.join(versions)}, {snapshot.transport}"
    )
