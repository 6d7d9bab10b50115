"""Incidents: their life cycle, inhibition among them, and the repository that keeps them.

What belongs here: the life cycle from alerts to incidents that open, fire, are acknowledged and
resolve. What does not: notifying people (``tidemark.alerting.delivery``).
"""
