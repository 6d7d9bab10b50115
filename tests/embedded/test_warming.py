"""A new engine warms itself by ticks that leave nothing behind."""

import pytest

from tidemark.embedded import run_services
from tidemark.embedded.run_services import warm
from tidemark.lake.tables import TABLES

pytestmark = pytest.mark.spark


def versions(lake):
    return {name: lake.version(table) for name, table in TABLES.items()}


def test_ticks_of_a_new_engine_leave_no_trace(warm_home, spark_engine):
    before = versions(warm_home.lake)
    assert warm(warm_home.home, spark_engine, rows=0)
    assert versions(warm_home.lake) == before
    assert not (warm_home.home.engine / "warming").exists()


def test_an_engine_that_cannot_be_warmed_is_only_cold(warm_home, spark_engine, monkeypatch):
    monkeypatch.setattr(run_services, "MODULE", "orchestration.no_such_ticks")
    assert not warm(warm_home.home, spark_engine, rows=0)
    assert not (warm_home.home.engine / "warming").exists()
