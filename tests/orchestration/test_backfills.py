"""Backfills in parts, and their remaining hours after a kill."""

from datetime import timedelta

import pytest

from orchestration import in_process
from orchestration.in_process import RunError, with_remedy
from tests.support.hours_of_queues import DAY, START, append_hours
from tidemark.lake.clocks import Window
from tidemark.planning import history
from tidemark.settings.environment import Settings


@pytest.fixture
def small_parts(lake, monkeypatch):
    """Two rows of each of the first five hours, and parts of at most four rows."""
    append_hours(lake)
    monkeypatch.setattr(history, "PART_ROWS", 4)
    return lake


@pytest.fixture
def computed(small_parts, monkeypatch):
    """The hours of each run, of which the third dies."""
    entries, deaths = [], [3]

    def run(settings, job, tags, *more):
        entries.append(tags)
        if len(entries) in deaths:
            raise RunError("killed")
        return str(len(entries))

    monkeypatch.setattr(in_process, "_run", run)
    return entries


def recompute(lake, window=DAY, **options):
    lines = []
    settings = Settings(home=lake.home)
    in_process.recompute(settings, window, complain=lines.append, **options)
    return lines


def test_a_stopped_backfill_continues_with_the_part_that_died(small_parts, computed):
    with pytest.raises(RunError):
        recompute(small_parts)
    died = computed[-1]
    lines = recompute(small_parts)
    assert computed[3:] == [died]
    assert lines[0].startswith("continues at 2026-01-01T04:00Z")
    recompute(small_parts)
    assert len(computed) == 4 + 3, "nothing is left of a complete one"


@pytest.mark.parametrize(
    ("window", "options"),
    [(DAY, {"restart": True}), (Window(START, DAY.end - timedelta(hours=1)), {})],
    ids=["restart", "other hours"],
)
def test_other_hours_or_a_wish_restart(small_parts, computed, window, options):
    with pytest.raises(RunError):
        recompute(small_parts)
    recompute(small_parts, window, **options)
    assert computed[3:][0] == computed[0]


@pytest.mark.parametrize("text", ["{", "[]", "null", '{{"start": "{0}", "end": "{1}"}}'])
def test_of_a_broken_text_all_hours_are_left(lake, text):
    """No recomputation began until a person had removed the file."""
    hours = DAY.start.isoformat(), DAY.end.isoformat()
    lake.shared.state.write("backfill.json", text.format(*hours) if "start" in text else text)
    assert in_process.remaining(lake.shared.state, DAY) == DAY


def test_a_lost_engine_names_what_to_do_for_each_job() -> None:
    """The next tick repeats a tick by itself; a backfill has to be started again."""
    reason = "progress__queues: the Spark Connect server is gone: Connection refused"
    assert with_remedy(reason, "tick") == f"{reason}; the next tick goes on when it is back"
    assert "give the same command again" in with_remedy(reason, "recompute")
    assert with_remedy("a disk is full", "recompute") == "a disk is full"
