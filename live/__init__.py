"""Live results: what one snapshot alone shows, in plain Python and without Spark.

What belongs here: lag of every group, and who would own which queue, computed from one snapshot.
What does not belong here: taking the snapshot (``collection``), printing it (``tidemark``), and
anything that needs history.
"""
