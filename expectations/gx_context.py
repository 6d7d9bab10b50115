"""Contexts of Great Expectations, without analytics or progress bars."""

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
