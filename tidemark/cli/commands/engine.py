"""`tidemark engine`: the warm Spark Connect server and fork server that ticks share."""

import os
from pathlib import Path
from typing import Annotated

import typer

from tidemark.cli.invocation import invocation
from tidemark.cli.options import path

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
    from tidemark.cli.errors import CommandError
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
    from tidemark.cli.spark_jars import fetch

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
