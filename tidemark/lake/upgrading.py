"""Moving the state of an older program to this one, forwards only."""

import stat
from collections.abc import Callable

from tidemark.host.leases import RUN
from tidemark.lake.catalog import Lake
from tidemark.lake.table_versions import Step, pending
from tidemark.lake.tables import TABLES
from tidemark.settings.home import Home

WAITS_SECONDS = 3600.0
"""Longest wait of an upgrade for the end of a run."""

FOR_ITS_USER = 0o700

Report = Callable[[str], None]


def left_to_do(lake: Lake) -> list[str]:
    """Return a line for each thing that `upgrade` would do.

    Raises:
        VersionError: the tables are those of a newer program.
    """
    if "sqlite" in lake.config.drivers and not lake.home.catalog.exists():
        # Opening that catalog would make the home.
        return [Step(table, None).line for table in TABLES.values()]
    steps = list(pending(lake.unchecked_catalog))
    is_older = any(step.version is not None for step in steps)
    # A home with present tables keeps its mode: a person chose it, as for a shared volume.
    return [*(_folder(lake.home) if is_older else []), *(step.line for step in steps)]


def upgrade(
    lake: Lake,
    report: Report = lambda _: None,
    waiting: Report = lambda _: None,
    meanwhile: Callable[[], None] = lambda: None,
) -> int:
    """Move the tables of an older program to the present version, and create missing ones.

    Nothing is changed while a run changes tables. An upgrade that was killed is called again.

    Args:
        lake: the tables.
        report: receives a line for each thing that is done in an older home.
        waiting: receives the holder of the lease of runs, where this waits for it.
        meanwhile: called again and again while it does.

    Returns:
        How many things were done.

    Raises:
        VersionError: the tables are those of a newer program.
        LeaseError: a run has kept this waiting for `WAITS_SECONDS`.
    """
    steps = list(pending(lake.unchecked_catalog))
    if all(step.version is None for step in steps):
        lake.catalog  # noqa: B018  creates them; no run knows them yet
        return len(steps)
    with lake.shared.leases.acquire(RUN, WAITS_SECONDS, waiting, meanwhile):
        done = _folder(lake.home)
        if done:
            lake.home.path.chmod(FOR_ITS_USER)
            report(done[0])
        for step in pending(lake.unchecked_catalog):
            step.run(lake.unchecked_catalog)
            report(step.line)
            done.append(step.line)
    return len(done)


def _folder(home: Home) -> list[str]:
    """Return a line about the mode of the home, which 0.1.0 left readable for every user."""
    mode = stat.S_IMODE(home.path.stat().st_mode) if home.path.is_dir() else FOR_ITS_USER
    if not mode & 0o077:
        return []
    return [f"{home.path}: mode {mode:o} becomes {FOR_ITS_USER:o}"]
