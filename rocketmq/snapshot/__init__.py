"""The bulk part of a snapshot: discovery of brokers, reading each of them, and assembly.

What belongs here: which brokers are read, what each of them responds, and how responses become the
records of a snapshot (``rocketmq.records``). What does not: requests that need one round trip per
client, counter or queue (``rocketmq.deep``), and when a snapshot is taken (``collection``).
"""
