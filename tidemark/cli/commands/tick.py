"""`tidemark tick` and `recompute`: runs that compute pending snapshots, or whole hours again."""

from datetime import UTC, datetime
from typing import Annotated, Any

import typer

from tidemark.cli.invocation import CommandError, NamesrvOption, hand_over, invocation, parse
from tidemark.model.snapshots import SnapshotStatus

app = typer.Typer()


@app.command()
def tick(
    namesrv: NamesrvOption = "",
    no_collect: Annotated[
        bool, typer.Option("--no-collect", help="Load and compute what is landed.")
    ] = False,
) -> None:
    """Take a snapshot, load it, validate it, compute what is pending, and alert."""
    hand_over()
    from tidemark.cli.output import complain, steps
    from tidemark.cli.snapshot_command import clusters, name_servers

    if not no_collect:
        clusters(invocation().home, namesrv)
    from orchestration import in_process

    settings, started = invocation().settings, datetime.now(UTC)
    if namesrv.strip():
        settings = settings.model_copy(update={"namesrv": ";".join(name_servers(namesrv))})
    with steps("tick") as report:
        in_process.tick(settings, collect=not no_collect, report=report, complain=complain)
    if not no_collect:
        _fail_if_nothing_was_read(invocation().landing, started)


def _fail_if_nothing_was_read(landing: Any, started: datetime) -> None:
    """Fail when no snapshot of this tick could be read.

    Raises:
        CommandError: all of them failed.
    """
    from tidemark.lake.landing import landed
    from tidemark.lake.loading import StructureError, read_landed

    headers = []
    for newest in sorted(landed(landing, since=started)):
        try:
            headers.append(read_landed(newest)["raw.snapshots"].to_pylist()[0])
        except StructureError as error:
            raise CommandError(f"{newest.snapshot_id}: {error}") from error
    lines = [
        f"{header['status']}: {header['cluster']}: {item['endpoint']}: {item['message']}"
        for header in headers
        for item in header["problems"] or ()
    ]
    if headers and all(header["status"] == SnapshotStatus.FAILED for header in headers):
        raise CommandError(f"nothing could be read: {lines[0]}")
    for line in lines:
        typer.echo(line, err=True)


recompute_app = typer.Typer()


@recompute_app.command()
def recompute(
    start: Annotated[str, typer.Option("--from", help="ISO 8601; UTC without a zone.")],
    end: Annotated[str, typer.Option("--to", help="ISO 8601, exclusive.")],
    restart: Annotated[
        bool, typer.Option("--restart", help="Begin at the first hour, not where it was stopped.")
    ] = False,
) -> None:
    """Recompute progress.* and alerting.* from raw.*; the range is widened to whole hours.

    Many hours are computed in parts. The same command after a kill continues with the part that was
    not done.
    """
    first, last = parse(start), parse(end)
    if first >= last:
        raise typer.BadParameter(f"--to {end} is not after --from {start}")
    hand_over()
    from assets.partitions import first_hour, kept_since
    from tidemark.cli.output import complain, steps
    from tidemark.lake.catalog import Lake
    from tidemark.lake.catalog_config import CatalogConfig
    from tidemark.lake.clocks import HOUR, Window, ceil_hour, floor_hour
    from tidemark.lake.retention import observed_since

    settings = invocation().settings
    lake = Lake(settings.home, CatalogConfig.of(settings.home, settings.catalog))
    oldest = kept_since(lake.shared.state, settings.history_days)
    if first < oldest:
        why = (
            f"history reaches {settings.history_days} days back (TIDEMARK_HISTORY_DAYS)"
            if oldest == first_hour(settings.history_days)
            else f"older raw rows were removed after {settings.raw_days} days (TIDEMARK_RAW_DAYS)"
        )
        raise typer.BadParameter(f"--from {start} is before {oldest:%Y-%m-%dT%H:%MZ}: {why}")
    # Without a record, as of an earlier version, the tables know what there is.
    if observed := observed_since(lake.shared.state):
        if last <= (first_observed := floor_hour(observed)):
            raise typer.BadParameter(
                f"--to {end}: nothing was observed before {observed:%Y-%m-%dT%H:%MZ}"
            )
        first = max(first, first_observed)
    now = ceil_hour(datetime.now(UTC))
    if last > now:
        if first >= now:
            raise typer.BadParameter(f"--from {start} is in the future")
        last = now
    window = Window(first, last).whole_hours()
    hours = round((window.end - window.start) / HOUR)
    from orchestration import in_process  # it takes seconds, and mistakes need it not

    with steps(f"recompute {hours} hours from {window.start:%Y-%m-%d %H:%M} UTC") as report:
        in_process.recompute(settings, window, restart=restart, report=report, complain=complain)
