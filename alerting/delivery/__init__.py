"""Delivery: the outbox, the channels it sends by, messages, digests and silences.

What belongs here: how each transition of an incident reaches people once. What does not: what makes
an incident (``alerting.incidents``).
"""
