"""Contexts of Great Expectations, without analytics or progress bars."""

from functools import cache
from typing import Any


def great_expectations_context(stores: Any) -> Any:
    """Return a Great Expectations context with these stores.

    Args:
        stores: Great Expectations' defaults of its stores: in memory, or in a folder.
    """
    # The import takes 4-5 s, which only a run that validates should pay.
    import great_expectations as gx
    from great_expectations.data_context.types.base import DataContextConfig, ProgressBarsConfig

    return gx.get_context(
        mode="ephemeral",
        project_config=DataContextConfig(
            store_backend_defaults=stores,
            analytics_enabled=False,
            progress_bars=ProgressBarsConfig(globally=False),
        ),
    )


@cache
def frame_definition() -> Any:
    """Return the batch definition of any Spark frame: one for all suites of this process.

    Great Expectations writes its whole configuration as YAML at every addition to a context, which
    takes longer than a suite. A frame is kept until the next one takes its place.
    """
    from great_expectations.data_context.types.base import InMemoryStoreBackendDefaults

    context = great_expectations_context(InMemoryStoreBackendDefaults())
    source = context.data_sources.add_spark("spark", persist=False)
    return source.add_dataframe_asset("frame").add_batch_definition_whole_dataframe("whole")
