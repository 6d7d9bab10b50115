"""Alerting: what counts as wrong, and how people are told.

What belongs here: rules and the files they are written in (`alerting.rules`), which alerts are news
(`alerting.notifications`) and the channels they go out by (`alerting.channels`). Plain Python that
reads tables through ``lake``. What does not belong here: finding out whether a rule is true, which
is a computation (``spark.alerts``), and deciding when to look (``orchestration``).
"""
