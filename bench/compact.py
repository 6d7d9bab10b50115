"""Join the data files of the last day in every table of a home, the hour under way too.

The hourly maintenance spares the hour under way and hours of few files; this joins whatever it can.
"""

import argparse
from datetime import UTC, datetime
from pathlib import Path

from spark.session import engine
from spark.session.configuration import open_session, session_config
from tidemark.lake.catalog import CatalogConfig, Lake
from tidemark.lake.clocks import HOUR, Window, ceil_hour
from tidemark.lake.retention import compaction
from tidemark.lake.tables import TABLES
from tidemark.settings.home import Home

FILES = 2
"""Least number of files of an hour that are joined."""


def compact(home: Home) -> int:
    """Join the files of a home with a running engine; return how many were joined."""
    running = engine.running(home)
    assert running, "the engine of the home must run"
    running.admit()
    end = ceil_hour(datetime.now(UTC))
    young = Window(end - 24 * HOUR, end)
    lake = Lake(home)
    session = open_session(session_config(CatalogConfig.of(home), remote=running.remote))
    try:
        return sum(
            session.sql(compaction(table, young, FILES)).collect()[0].rewritten_data_files_count
            for table in TABLES.values()
            if lake.version(table)
        )
    finally:
        session.stop()


def main() -> None:
    """Join the files of the home on the command line and print how many there were."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("home", type=Path)
    print(compact(Home.of(parser.parse_args().home)))  # noqa: T201  the result


if __name__ == "__main__":
    main()
