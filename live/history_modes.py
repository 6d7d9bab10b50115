"""How groups consumed, from the history: a mode is remembered when the members have left.

The imports of this module are heavy: import it only for a home that has a history.
"""

from pyiceberg.catalog import load_catalog

from lake.catalog import NAME
from lake.catalog_config import CatalogConfig
from lake.damaged_files import usable
from lake.tables.progress import QUEUES
from live.consume_modes import MODE_COLUMNS, Pair, remembered_modes
from live.history_times import newest_computed
from rocketmq.consume_modes import REMEMBERED
from rocketmq.records import Snapshot


def read(config: CatalogConfig, snapshot: Snapshot) -> dict[Pair, str]:
    """Return the mode of each group and topic that the newest computed snapshot has.

    Args:
        config: how the catalog of the tables is reached.
        snapshot: the observation after the history.

    Raises:
        DamagedError: the tables cannot be read.
    """
    catalog = load_catalog(NAME, **config.python)
    where = newest_computed(catalog, QUEUES, snapshot, REMEMBERED)
    if where is None:
        return {}
    with usable(QUEUES.name):
        table = catalog.load_table(QUEUES.name)
        # A table from before a column was declared gets it with the next tick.
        if not set(MODE_COLUMNS) <= set(table.schema().column_names):
            return {}
        rows = table.scan(where, selected_fields=MODE_COLUMNS).to_arrow()
    distinct = rows.group_by(list(MODE_COLUMNS)).aggregate([])
    return remembered_modes(distinct.to_pylist(), snapshot.observed_at)
