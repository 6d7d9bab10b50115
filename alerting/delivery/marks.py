"""How far each channel has been notified: the newest incident that it was considered for.

A process that delivers again after days reads from there, so it misses nothing that opened and
resolved meanwhile. The marks are a file of the home. Without it every channel is new.
"""

import json
from collections.abc import Mapping
from datetime import datetime

from settings.home import Home, write_whole

Marks = Mapping[str, datetime]
"""Channel to ``alerting.incidents.written_at``; what was written earlier has been considered."""


def read_marks(home: Home) -> dict[str, datetime]:
    """Return the marks; none where the file is missing or damaged, which repeats nothing."""
    try:
        found = json.loads((home.path / "delivery.json").read_text())
        return {name: datetime.fromisoformat(mark) for name, mark in found["channels"].items()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return {}


def write_marks(home: Home, marks: Marks) -> None:
    """Replace the marks."""
    channels = {name: mark.isoformat() for name, mark in sorted(marks.items())}
    write_whole(home.path / "delivery.json", json.dumps({"channels": channels}, indent=1))
