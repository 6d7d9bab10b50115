"""How a session is set for the size of its work."""

import pytest

from lake.catalog import CatalogConfig
from spark.session import FEW_ROWS, MANY_ROWS, SparkResource, session_config

pytestmark = pytest.mark.spark


def test_few_rows_are_interpreted_and_many_are_planned_anew(spark, spark_engine, session_home):
    config = session_config(CatalogConfig.of(session_home), remote=spark_engine.remote)
    resource = SparkResource(spark_config=config)

    def settings(rows):
        session = resource.session_for(rows)
        return tuple(
            session.conf.get(f"spark.sql.{name}")
            for name in ("codegen.factoryMode", "codegen.wholeStage", "adaptive.enabled")
        )

    try:
        few, more, many, again = map(settings, (FEW_ROWS, FEW_ROWS + 1, MANY_ROWS + 1, 1))
    finally:
        resource.session_for(1)  # the session is that of the other tests
    assert few == again == ("NO_CODEGEN", "false", "false")
    assert more == ("FALLBACK", "true", "false")
    assert many == ("FALLBACK", "true", "true")
