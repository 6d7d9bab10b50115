"""RocketMQ: the wire, the admin protocol, snapshots, files, names and allocation of queues.

What belongs here: everything that knows RocketMQ's protocol and files, and nothing else. `wire`
carries frames, `admin` sends read-only requests, `records` are the rows of a snapshot, `snapshot`
reads brokers in bulk, `deep` adds data that costs one request per client, counter or queue,
`collector` takes one snapshot with both, `files` reads the files that RocketMQ writes. What does
not belong here: Spark, Dagster, tables, settings, or any computation of lag and delay. Nothing in
this room can change a broker: the transport has an allow-list of read-only request codes.
"""
