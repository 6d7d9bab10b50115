"""Collection: snapshots of all clusters on time, by one process each, with a memory of brokers.

What belongs here: snapshots of many clusters side by side, collection at an interval, and the
memory of brokers that responded before. What does not belong here: reading one cluster
(``tidemark.rocketmq.snapshot``), the landing of snapshots (``tidemark.lake.landing``), Spark and
Dagster.
"""
