"""The bulk part of a snapshot: discovery of brokers, reading each of them, and assembly.

What belongs here: the choice of brokers, their responses, and the assembly of responses to records
of a snapshot (``tidemark.rocketmq.records``). What does not: requests that need one round trip per
client, counter or queue (``tidemark.rocketmq.deep``), and the time of a snapshot (``collection``).
"""
