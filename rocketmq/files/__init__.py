"""What RocketMQ leaves in files: broker stores, broadcast clients' offsets, statistics logs.

Belongs here: reading those files as they lie there, with the process that writes them running,
stopped or dead, into the same `rocketmq.rows.Snapshot` that a live look gives. Does not belong
here: writing any of them, asking brokers, and what the numbers mean.
"""
