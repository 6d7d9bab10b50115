"""Delivery: the outbox, the channels it sends by, messages, digests and silences.

What belongs here: the notification of people about each transition of an incident, once. What does
not: the life cycle of incidents (``alerting.incidents``).
"""
