"""Collection: which cluster is collected when and by whom, and what is remembered of each.

What belongs here: snapshots of many clusters side by side, collection at an interval, and the
memory of brokers that responded before. What does not belong here: reading one cluster
(``rocketmq.snapshot``), where snapshots land (``lake.landing``), Spark and Dagster.
"""
