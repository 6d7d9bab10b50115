"""The admin protocol: one function per read-only request, one type per response.

What belongs here: request codes with their fields, and decoders from a body to a typed response.
What does not: connections (``tidemark.rocketmq.wire``), and which brokers are read
(``tidemark.rocketmq.snapshot``).
"""
