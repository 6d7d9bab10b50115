"""`tidemark collect`: read a source once and land what it gives; nothing is loaded or computed."""

from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer()

_FOLDER = typer.Option(metavar="DIR", help="A broker's store folder, or a copy of one.")
_CLIENTS = typer.Option(metavar="DIR", help="Broadcast clients' offsets: ~/.rocketmq_offsets.")
_LOGS = typer.Option(metavar="FILE...", help="A broker's stats.log, and rolled ones (.gz).")


@app.command()
def collect(
    store: Annotated[Path | None, _FOLDER] = None,
    local_offsets: Annotated[Path | None, _CLIENTS] = None,
    stats_log: Annotated[list[Path] | None, _LOGS] = None,
    files: Annotated[
        list[Path] | None, typer.Argument(metavar="[FILE...]", help="More files of --stats-log.")
    ] = None,
    cluster: Annotated[
        str, typer.Option(envvar="TIDEMARK_CLUSTER", help="What the cluster is called.")
    ] = "",
    broker: Annotated[str, typer.Option(help="Name of the broker group the files are of.")] = "",
) -> None:
    """Read a source once and land it: files of RocketMQ, with the brokers running or gone."""
    from tidemark import files as from_files

    sources = {"--store": store, "--local-offsets": local_offsets, "--stats-log": stats_log}
    given = [name for name, source in sources.items() if source]
    if len(given) != 1:
        raise typer.BadParameter(f"give one of {', '.join(sources)}")
    if files and not stats_log:
        raise typer.BadParameter(f"{files[0]}: files are for --stats-log")
    if store:
        from_files.land_store(store, cluster, broker)
    elif local_offsets:
        from_files.land_local_offsets(local_offsets, cluster)
    elif stats_log:
        from_files.land_stats_log([*stats_log, *(files or ())], cluster, broker)
