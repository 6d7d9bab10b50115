"""`tidemark engine`: the warm Spark Connect server and fork server of ticks, and its jars."""

import os
import subprocess
import tempfile
from pathlib import Path
from typing import Annotated

import typer

from spark.session.packages import SHA256, damaged
from tidemark.cli.invocation import CommandError, invocation, path
from tidemark.lab.jars import ivy_command

app = typer.Typer(no_args_is_help=True)


@app.command()
def up() -> None:
    """Start the engine of this home, unless it runs."""
    from tidemark.cli.output import steps
    from tidemark.embedded import run_services

    with steps("engine") as report:
        report("starting Spark Connect")
        started = run_services.up(invocation().settings)
    typer.echo(f"engine {started.remote} pid {started.pid}")


@app.command()
def down() -> None:
    """Stop the engine of this home."""
    from tidemark.embedded import run_services

    typer.echo("engine stopped" if run_services.down(invocation().home) else "no engine runs")


@app.command()
def status() -> None:
    """Show whether the engine runs; exit 1 when it does not."""
    from spark.session import engine

    running = engine.running(invocation().home)
    if running is None:
        typer.echo("no engine runs; ticks start a Spark of their own")
        raise typer.Exit(1)
    typer.echo(f"engine {running.remote} pid {running.pid}")


@app.command()
def run(
    port: Annotated[
        int, typer.Option(help="Port of loopback to listen at.", min=1, max=65535)
    ] = 15002,
) -> None:
    """Be the engine, in the foreground: for a container, or a service of the machine.

    Runs find it by TIDEMARK_SPARK_REMOTE=sc://localhost:PORT. Both sides take the token of
    SPARK_CONNECT_AUTHENTICATE_TOKEN.
    """
    from spark.session import engine
    from tidemark.lake.catalog import Lake
    from tidemark.lake.catalog_config import CatalogConfig

    if not os.environ.get("SPARK_CONNECT_AUTHENTICATE_TOKEN"):
        raise CommandError(
            "whoever reaches the engine runs code as its user: set "
            "SPARK_CONNECT_AUTHENTICATE_TOKEN, here and where runs are"
        )
    settings = invocation().settings
    catalog = CatalogConfig.of(settings.home, settings.catalog)
    Lake(settings.home, catalog).catalog  # noqa: B018  the engine reads tables that exist
    settings.home.engine.mkdir(parents=True, exist_ok=True)
    command, environment = engine.foreground(settings.home, catalog, settings.spark, port)
    # Spark writes artifacts into its working folder.
    os.chdir(settings.home.engine)
    os.execve(command[0], command, environment)


@app.command()
def jars(
    folder: Annotated[Path, typer.Argument(parser=path, metavar="FOLDER", help="Where they go.")],
) -> None:
    """Fetch the jars that Spark needs into a folder, for TIDEMARK_SPARK_JARS."""
    for package in fetch(folder):
        typer.echo(package)


@app.command()
def properties() -> None:
    """Print Spark's properties for a Connect server elsewhere, as a file for spark-submit.

    They hold no secret: the server takes passwords from PGPASSFILE and keys from AWS_...
    """
    from spark.session.configuration import driver_config

    config = driver_config(invocation().catalog(), invocation().settings.spark)
    for name, value in sorted(config.items()):
        typer.echo(f"{name} {value}")


_SECONDS = 900


def fetch(folder: Path) -> list[str]:
    """Fetch every pinned jar into a folder, and return their packages.

    Jars that lie there already, whole, are not fetched again.

    Raises:
        CommandError: they cannot be fetched, or one of them is not the pinned one.
    """
    folder.mkdir(parents=True, exist_ok=True)
    wanting = damaged(folder)
    for jar in wanting:
        # Ivy leaves a newer file as it is.
        jar.unlink(missing_ok=True)
    if wanting:
        _download(folder)
    if mistakes := damaged(folder):
        raise CommandError("; ".join(mistakes.values()))
    return list(SHA256)


def _download(folder: Path) -> None:
    with tempfile.TemporaryDirectory() as name:
        wanted = Path(name) / "ivy.xml"
        wanted.write_text(_wanted())
        try:
            done = subprocess.run(
                ivy_command(wanted, folder), capture_output=True, text=True, timeout=_SECONDS
            )
        except subprocess.TimeoutExpired:
            raise CommandError(f"the jars did not arrive within {_SECONDS} s") from None
    if done.returncode:
        signs = ("UnknownHost", "UNRESOLVED", "FAILED", "Exception")
        lines = [line.strip() for line in (done.stdout + done.stderr).splitlines()]
        why = next(
            (line for line in lines if any(sign in line for sign in signs)), "no reason given"
        )
        raise CommandError(
            f"the jars cannot be fetched from Maven Central ({why[:160]}): check the network, or "
            "name a mirror with TIDEMARK_IVY_SETTINGS"
        )


def _wanted() -> str:
    dependencies = "".join(
        f'<dependency org="{group}" name="{artifact}" rev="{version}" transitive="false"/>'
        for group, artifact, version in (package.split(":") for package in SHA256)
    )
    return (
        '<ivy-module version="2.0"><info organisation="tidemark" module="spark"/>'
        '<configurations><conf name="default"/></configurations>'
        f"<dependencies>{dependencies}</dependencies></ivy-module>"
    )
