"""The deep part of a snapshot: data that costs one request per client, counter, queue or key.

What belongs here: one module per kind of request, and ``deep_snapshot``, which runs them all.
Each part is bounded by ``tidemark.rocketmq.snapshot.target``, and a failure in it is a
problem of the snapshot. What does not belong here: data that a few bulk requests read
(``tidemark.rocketmq.snapshot``).
"""
