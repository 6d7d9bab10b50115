"""Alerting: alert rules, the life cycle of incidents, and how people are notified.

What belongs here: `rules` (model, kinds, files, the ready-made rules), `incidents` (life cycle,
inhibition, repository) and `delivery` (outbox, channels, messages, digests, silences). Plain Python
that reads tables through ``lake``. What does not belong here: the computation of the rows for which
a rule is true (``spark.alerts``), and its schedule (``orchestration``).
"""
