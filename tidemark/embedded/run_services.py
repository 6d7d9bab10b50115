"""The services that make runs short, up and down together: Spark engine, fork server."""

from concurrent.futures import ThreadPoolExecutor

from orchestration.instance import dagster_home
from spark.session import engine
from tidemark.embedded import forking
from tidemark.lake.catalog import Lake
from tidemark.lake.catalog_config import CatalogConfig
from tidemark.lake.upgrading import upgrade
from tidemark.settings.environment import Settings
from tidemark.settings.home import Home


def up(settings: Settings) -> engine.Engine:
    """Start the services that do not run yet.

    Raises:
        EngineError: when the Spark engine does not come up.
        ForkServerError: when the fork server does not.
    """
    home = settings.home
    dagster_home.prepare(home)  # a daemon that is started next finds its folder
    catalog = CatalogConfig.of(home, settings.catalog)
    lake = Lake(home, catalog)
    upgrade(lake)  # the tables must exist before the engine reads them
    before = engine.running(home)
    was_running = forking.running(home) is not None
    try:
        with ThreadPoolExecutor(1) as pool:
            server = pool.submit(forking.up, home) if forking.SUPPORTED else None
            started = engine.up(home, catalog, settings.spark)
            if server:
                server.result()
    except BaseException:
        # An interruption reaches the engine's thread only; the server may have come up meanwhile.
        if not was_running:
            forking.down(home)
        if before is None:
            engine.down(home)
        raise
    return started


def down(home: Home) -> bool:
    """Stop both; return False when no engine ran."""
    forking.down(home)
    return engine.down(home)


def is_up(home: Home) -> bool:
    """Return whether both run."""
    forks = not forking.SUPPORTED or forking.running(home) is not None
    return forks and engine.running(home) is not None
