"""Maintenance: thinned hours of the timeline, and the effect of a damaged table."""

from datetime import UTC, datetime, timedelta
from typing import Any
from unittest.mock import MagicMock

import dagster as dg
import pytest
from pyspark.sql import SparkSession

from assets.dagster_names import with_own_keys
from assets.maintenance import maintenance, thin
from assets.reader import read_windows
from assets.resources import LakeResource
from assets.run import write_window
from tests.support.table_rows import frame, minute
from tidemark.host.failures import RefusedError
from tidemark.host.leases import LostError
from tidemark.lake.catalog import Lake
from tidemark.lake.clocks import HOUR, Window
from tidemark.lake.retention import Retention, raw_since
from tidemark.lake.tables import alerting, progress, quality, raw
from tidemark.settings.environment import Settings
from tidemark.settings.home import Home

pytestmark = pytest.mark.spark


def step(start: datetime, number: int) -> dict[str, Any]:
    """A queue of one message a minute."""
    return {
        "topic": "t",
        "queue_id": 0,
        "max_offset": number + 1,
        "observed_at": start + timedelta(minutes=number),
        "previous_max_offset": number,
        "previous_at": start + timedelta(minutes=number - 1),
    }


def test_thinning_follows_the_variables(
    spark: SparkSession, session_home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TIDEMARK_THIN_AFTER_HOURS", "2")
    monkeypatch.setenv("TIDEMARK_THINNED_MINUTES", "20")
    lake, old, young = Lake(session_home), minute(0), minute(120)
    for start in (old, young):
        rows = [step(start, number) for number in range(60)]
        window = Window(start, start + HOUR)
        write_window(frame(spark, progress.TIMELINE, rows), progress.TIMELINE, window, lake)

    hours = thin(spark, lake, young + HOUR, Settings.read().history)

    assert hours == 1
    counts = [
        read_windows(spark, progress.TIMELINE, Window(start, start + HOUR)).count()
        for start in (old, young)
    ]
    assert counts == [3, 60]


def maintained(lake: Lake, damaged: str, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Run maintenance where Spark cannot expire versions of a table; return the statements."""
    statements: list[str] = []

    def sql(text: str) -> MagicMock:
        statements.append(text)
        if "expire_snapshots" in text and damaged in text:
            raise RuntimeError(f"Failed to open input stream for file: {damaged}/x.avro\n\tat y")
        return MagicMock(count=lambda: 0)

    monkeypatch.setattr("assets.maintenance.thin", lambda *_: 0)
    spark, resource = MagicMock(), LakeResource(home=str(lake.home.path))
    spark.session_for.return_value.sql = sql
    with pytest.raises((dg.Failure, RuntimeError)) as error, dg.build_asset_context() as context:
        own = with_own_keys(
            {
                "lake": resource,
                "spark": spark,
                "retention": Retention(raw=7, progress=90, alerts=30),
            }
        )
        maintenance(context, **own)
    statements.append(str(error.value))
    return statements


def test_a_damaged_table_keeps_no_other_growing(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise all later tables would grow until a person restores its file."""
    rows = {"observed_at": minute(0), "snapshot_id": "s", "cluster": "lab"}
    lake.append(raw.TOPICS, [rows])
    lake.append(quality.QUARANTINE, [{"observed_at": minute(0), "table": "raw.topics"}])
    *statements, line = maintained(lake, raw.TOPICS.name, monkeypatch)
    assert any("expire_snapshots" in text and "quality.quarantine" in text for text in statements)
    assert line.startswith("raw.topics cannot be kept small, all other tables were: RuntimeError: ")
    assert "raw.topics/x.avro; put back a copy" in line and "\n" not in line


def test_a_landing_that_refuses_to_delete_keeps_no_table_growing(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise RefusedError("the landing s3://b/l: ACCESS_DENIED; check the object store")

    monkeypatch.setattr("assets.maintenance.remove_landed", refuse)
    lake.append(raw.TOPICS, [{"observed_at": minute(0), "snapshot_id": "s", "cluster": "lab"}])
    *statements, line = maintained(lake, "none", monkeypatch)
    assert any("expire_snapshots" in text and "raw.topics" in text for text in statements)
    assert line.startswith("the landing cannot be kept small, all other tables were: ")
    assert line.endswith("ACCESS_DENIED; check the object store")


def test_a_lost_lease_ends_it_before_the_next_table(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another run may change the tables by then."""
    for table in (raw.BROKERS, raw.TOPICS):
        lake.append(table, [{"observed_at": minute(0)}])
    held, alone = [True, True], LakeResource.alone

    def lost(resource: LakeResource, *given: Any) -> None:
        if not held:
            raise LostError("the lease 'run' was lost")
        held.pop()
        alone(resource, *given)

    monkeypatch.setattr(LakeResource, "alone", lost)
    with pytest.raises(LostError):
        maintained(lake, "none", monkeypatch)


def test_raw_rows_stay_where_their_removal_cannot_be_recorded(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A recomputation of their hours would remove the rows computed from them."""
    for table in (raw.SNAPSHOTS, raw.TOPICS, alerting.ALERTS):
        lake.append(table, [{"observed_at": minute(0)}])
    *statements, _ = maintained(lake, raw.SNAPSHOTS.name, monkeypatch)
    assert not any("raw.topics" in text for text in statements)


def removed_raw(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Whether maintenance removes rows of raw tables; its statements end with a failure."""
    statements = maintained(lake, alerting.ALERTS.name, monkeypatch)
    return any(text.startswith("DELETE FROM raw.") for text in statements)


def test_raw_rows_that_are_not_computed_yet_stay(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a pause of nine days ticks catch up; what they had loaded was removed meanwhile."""
    row = {"observed_at": datetime.now(UTC) - timedelta(days=9), "snapshot_id": "s"}
    lake.append(alerting.ALERTS, [{"observed_at": row["observed_at"]}])
    for table in (raw.SNAPSHOTS, raw.TOPICS):
        lake.append(table, [row | {"cluster": "lab"}])
    assert not removed_raw(lake, monkeypatch)
    assert raw_since(lake.shared.state) is None
    lake.append(progress.SNAPSHOTS, [row | {"cluster": "lab"}])
    assert removed_raw(lake, monkeypatch)
