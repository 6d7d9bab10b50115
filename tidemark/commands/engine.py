"""`tidemark engine`: what ticks share, a warm Spark Connect server and imported libraries."""

import typer

from tidemark.invocation import invocation

app = typer.Typer(no_args_is_help=True)


@app.command()
def up() -> None:
    """Start the engine of this home, unless it runs."""
    from lab import java
    from orchestration.instance import run_services
    from tidemark.progress_line import steps

    java.find("java")
    with steps("engine") as report:
        report("starting Spark Connect")
        started = run_services.up(invocation().settings)
    typer.echo(f"engine {started.remote} pid {started.pid}")


@app.command()
def down() -> None:
    """Stop the engine of this home."""
    from orchestration.instance import run_services

    typer.echo("engine stopped" if run_services.down(invocation().home) else "no engine runs")


@app.command()
def status() -> None:
    """Show whether the engine runs; exit 1 when it does not."""
    from spark.session import engine

    found = engine.running(invocation().home)
    if found is None:
        typer.echo("no engine runs; ticks start a Spark of their own")
        raise typer.Exit(1)
    typer.echo(f"engine {found.remote} pid {found.pid}")
