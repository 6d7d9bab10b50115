"""Evaluation of alert rules: which rule is true of which row.

What belongs here: pure functions from rows to ``alerting.alerts``. What does not: what a rule may
contain (``tidemark.alerting.rules``) and the life cycle of incidents (``alerting.incidents``).
"""
