"""RocketMQ as it is: the wire, the names and what a look at a cluster gives.

Here belongs what knows RocketMQ's protocol and files and nothing else: frames, the tolerant JSON
reader, typed read-only requests, names and versions, the rows of a snapshot, the collector.
Here does not belong anything that knows Spark, Dagster, tables or settings, nor any computing of
lag or delay. Nothing in this package can change a broker: the transport holds an allow-list.
"""
