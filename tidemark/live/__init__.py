"""Live results: lag, delay and owners of queues from one snapshot, in Python without Spark.

What belongs here: lag of every group, and planned owners of queues, computed from one snapshot.
What does not belong here: taking the snapshot (``collection``), printing it (``tidemark``), and
anything that needs history.
"""
