"""The ticks that warm up a new engine, in a process like those of real ticks.

``python -m tidemark.embedded.warm_up_ticks HOME ROWS``; `tidemark.embedded.run_services` starts it.
"""

import os
import sys
from datetime import UTC, datetime

from orchestration import in_process
from tidemark.embedded.run_services import DONE
from tidemark.embedded.synthetic_snapshots import SyntheticCluster
from tidemark.lake.clocks import HOUR, floor_hour
from tidemark.lake.landing import land
from tidemark.settings.environment import Settings
from tidemark.settings.variables import PREFIX

TICKS = 2
"""Number of ticks. The second has a deep snapshot, for the queries on reports of clients."""


def main() -> None:
    """Tick in the home that the first argument names, on about as many rows as the second."""
    path, rows = sys.argv[1:]
    # No settings of the environment apply, so no broker gets a request and no person a
    # notification.
    for name in [name for name in os.environ if name.startswith((PREFIX, "DAGSTER_"))]:
        del os.environ[name]
    os.environ[f"{PREFIX}HOME"] = path
    settings = Settings.read()
    cluster = SyntheticCluster.with_rows(floor_hour(datetime.now(UTC)) - HOUR, int(rows))
    for number in range(TICKS):
        land(settings.home, cluster.snapshot(number))
        in_process.tick(settings, collect=False)
    _close_session()
    (settings.home.path / DONE).touch()


def _close_session() -> None:
    """Release the resources of the session in the engine."""
    from pyspark.sql.connect.session import SparkSession

    session = SparkSession.getActiveSession()
    if session is not None:
        session.stop()


if __name__ == "__main__":
    main()
