"""How a session is set for the size of its work."""

import pytest

from spark.session.configuration import (
    FEW_ROWS,
    MANY_ROWS,
    TASK_ROWS,
    SparkResource,
    partitions,
    session_config,
)
from spark.tuning import IN_ONE_PART
from tidemark.lake.catalog_config import CatalogConfig


@pytest.mark.parametrize(
    ("rows", "slots", "parts"),
    [
        (0, 8, 1),
        (TASK_ROWS, 8, 1),
        (TASK_ROWS + 1, 8, 2),
        (190_000, 8, 4),
        (190_000, 2, 2),
        (MANY_ROWS + 1, 32, 32),
        (5_000_000, 32, 100),
    ],
)
def test_parts_follow_rows_and_slots(rows, slots, parts):
    assert partitions(rows, slots) == parts


@pytest.fixture
def resource(spark, spark_engine, session_home):
    """A resource on the session of all tests, which has the settings of few rows again later."""
    spark_engine.admit()
    config = session_config(CatalogConfig.of(session_home), remote=spark_engine.remote)
    resource = SparkResource(spark_config=config)
    token = IN_ONE_PART.set(False)
    yield resource
    resource.session_for(1)
    IN_ONE_PART.reset(token)


@pytest.mark.spark
def test_rows_of_one_task_are_computed_in_one_part(resource):
    def in_one_part(rows):
        resource.session_for(rows)
        return IN_ONE_PART.get()

    assert [in_one_part(rows) for rows in (1, TASK_ROWS, MANY_ROWS + 1)] == [True, True, False]


@pytest.mark.spark
def test_few_rows_are_interpreted_and_many_are_compiled(resource):
    def settings(rows):
        session = resource.session_for(rows)
        return tuple(
            session.conf.get(f"spark.sql.{name}")
            for name in ("codegen.factoryMode", "codegen.wholeStage", "adaptive.enabled")
        )

    few, more, many, again = map(settings, (FEW_ROWS, FEW_ROWS + 1, MANY_ROWS + 1, 1))
    assert few == again == ("NO_CODEGEN", "false", "false")
    assert more == ("FALLBACK", "true", "false")
    assert many == ("FALLBACK", "true", "true")
