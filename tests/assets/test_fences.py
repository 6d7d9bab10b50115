"""A run that is stopped between its check and its commit, while another one has its turn."""

from datetime import timedelta

import pytest

from assets.run import write_window
from spark.session.engine import TOKEN
from tests.support.lake_copies import copied
from tests.support.stopped_runs import TABLE, WINDOW, refused, row, stopped
from tests.support.table_rows import NOON, frame
from tidemark.host.leases import RUN
from tidemark.lake.catalog import Lake
from tidemark.settings.home import Home


def taken_over(lake):
    """The lease, as another run gets it after the first one has lost it."""
    (lake.home.path / f"{RUN}.lock").unlink()
    lake.held = lake.shared.leases.acquire(RUN)
    return lake.held


@pytest.mark.slow
def test_python_commits_nothing_without_the_lease(lake):
    process = stopped(lake, "python")
    with taken_over(lake):
        lake.append(TABLE, [row(2)])
        assert "the lease 'run' was lost" in refused(process)
    assert [item["max_offset"] for item in lake.read(TABLE).to_pylist()] == [2]


@pytest.mark.spark
@pytest.mark.parametrize("has_rows", [False, True], ids=["an empty window", "a computed one"])
def test_spark_commits_nothing_without_the_lease(tmp_path, empty_lake, spark_engine, has_rows):
    lake = copied(empty_lake, Home.of(tmp_path / "home"))
    if has_rows:
        lake.append(TABLE, [row(0)])
    process = stopped(lake, "spark", spark_engine.remote, **{TOKEN: spark_engine.token})
    other = Lake(lake.home)
    with taken_over(other):
        other.replace(TABLE, WINDOW, [row(2)])
        assert "the lease 'run' was lost" in refused(process)
    assert [item["max_offset"] for item in other.read(TABLE).to_pylist()] == [2]


@pytest.mark.spark
def test_an_engine_that_goes_on_with_a_write_of_a_killed_run_commits_nothing(spark, session_home):
    """Its plan was made on a version that is no longer the newest."""
    lake = Lake(session_home)
    assert lake.catalog
    spark.sql(f"DELETE FROM {TABLE.name} WHERE observed_at < '{NOON - timedelta(days=3)}'")
    other = Lake(session_home)
    versions = lake.ready_for_spark

    def overtaken(table):
        base = versions(table)
        other.append(TABLE, [row(2)])
        return base

    lake.ready_for_spark = overtaken
    with pytest.raises(Exception, match="conflicting files"):
        write_window(frame(spark, TABLE, [row(1)]), TABLE, WINDOW, lake)
    assert [item["max_offset"] for item in other.read(TABLE, WINDOW).to_pylist()] == [2]
