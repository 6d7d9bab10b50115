"""Files that RocketMQ writes: broker stores, offsets of broadcasting clients, statistics logs.

What belongs here: reading those files, while their process runs or after it has stopped, into the
same `tidemark.rocketmq.records.Snapshot` that a live broker gives. What does not: writing any of
them, requests to brokers, and the meaning of the numbers.
"""
