"""Names and meanings of the columns that annotations add to the rows of a table.

`expectations.annotations` computes them; conditions of expectations use them. Each name begins with
an underscore, so none is a column of a table.
"""

COPY = "_copy"
"""Every table: 1 for the first of identical rows, 2 for the next, and so on. Among rows of one key,
released ones come first."""

COPIES = "_copies"
"""Every table: number of rows with the same key."""

CONFLICT = "_conflict"
"""Every table: whether rows with the same key differ in any other column."""

DECISION = "_decision"
"""Every table: a person's decision on the row, ``released`` or ``dropped``; NULL without one."""

QUEUE_ROW = "_queue_row"
"""``raw.consumer_offsets``: state of the queue's row in ``raw.queue_offsets`` of the same snapshot,
``valid``, ``quarantined`` or ``absent``."""

LAG_OF_QUEUES = "_lag_of_queues"
"""``progress.groups``: the sum of ``lag`` over the group's rows of ``progress.queues`` in the same
snapshot; NULL when those rows are not given or none of them has a lag."""

ROWS = "_rows"
"""``raw.snapshots``: number of rows of queue offsets and consumer offsets in the snapshot."""

USUAL_ROWS = "_usual_rows"
"""``raw.snapshots``: mean of `ROWS` over the cluster's snapshots of the hour before; NULL when that
hour has none."""

DISAGREEING_QUEUES = "_disagreeing_queues"
"""``raw.snapshots`` of a store: number of queues whose ``max_offset`` is not between those of the
live snapshots before and after; NULL when no queue has both."""

BULK = "_bulk"
"""``raw.consume_stats``: ``consumer_offset`` and ``max_offset`` of the same queue as read in bulk,
in the same snapshot and in the next one (``next_consumer_offset``, ``next_max_offset``). NULL
without a next one, or when one of the offsets fell in between."""

LAG_OF_OFFSETS = "_lag_of_offsets"
"""``raw.broker_metrics``: the least and the most lag (``least``, ``most``) that the group can have
had at the broker between this snapshot's offsets and the next one's, with its ``consume_mode`` and
``match_method``. NULL where they do not show it: without a next snapshot, with queues that never
committed, for groups that broadcast, or when an offset fell in between."""
