"""What makes runs short, up and down together: the Spark engine and the fork server."""

from concurrent.futures import ThreadPoolExecutor

from lake.catalog import CatalogConfig, Lake
from lake.home import Home
from orchestration import forking
from spark import engine


def up(home: Home) -> engine.Engine:
    """Starts what does not run yet.

    Raises:
        EngineError: when the Spark engine does not come up.
        ForkServerError: when the fork server does not.
    """
    Lake(home).catalog  # noqa: B018  the tables must exist before the engine reads them
    was_running = forking.running(home) is not None
    try:
        with ThreadPoolExecutor(1) as pool:
            server = pool.submit(forking.up, home) if forking.SUPPORTED else None
            started = engine.up(home, CatalogConfig.of(home))
            if server:
                server.result()
    except BaseException:
        # An interruption reaches the engine's thread only; the server may have come up meanwhile.
        if not was_running:
            forking.down(home)
        raise
    return started


def down(home: Home) -> bool:
    """Stops both; False when no engine ran."""
    forking.down(home)
    return engine.down(home)


def is_up(home: Home) -> bool:
    """Whether both run."""
    forks = not forking.SUPPORTED or forking.running(home) is not None
    return forks and engine.running(home) is not None
