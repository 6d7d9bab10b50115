"""Dagster's own home: where its runs and events are kept, and how its daemon behaves."""

import json
import os
from pathlib import Path

from settings.home import Home, write_whole

CONFIG = """\
# Written by Tidemark at each start; change it there.
telemetry:
  enabled: false
nux:
  # No invitations to newsletters between an engineer and the board.
  enabled: false
concurrency:
  runs:
    # A lease lets runs that change tables follow each other; collecting waits for none.
    max_concurrent_runs: 8
event_log_storage:
  module: orchestration.instance.event_log
  class: EventLog
  config:
    base_dir: {folder}
run_launcher:
  module: orchestration.instance.launcher
  class: ForkingRunLauncher
run_retries:
  enabled: true
  max_retries: 0
run_monitoring:
  enabled: true
  start_timeout_seconds: 120
  # A dead run is found within a minute. A run that names its own longest time has that.
  poll_interval_seconds: 30
  max_runtime_seconds: 172800
  cancel_timeout_seconds: 60
retention:
  schedule:
    purge_after_days: 7
  sensor:
    purge_after_days: 2
"""


def prepare(home: Home) -> Path:
    """Makes Dagster's home in ours and names it in the environment (``DAGSTER_HOME``)."""
    home.make()
    home.dagster.mkdir(exist_ok=True)
    config = home.dagster / "dagster.yaml"
    # Where Dagster itself would keep the log; JSON is YAML whatever the folder is called.
    text = CONFIG.format(folder=json.dumps(str(home.dagster / "history" / "runs")))
    if not config.exists() or config.read_text() != text:
        write_whole(config, text)
    os.environ["DAGSTER_HOME"] = str(home.dagster)
    os.environ["TIDEMARK_HOME"] = str(home.path)
    return home.dagster
