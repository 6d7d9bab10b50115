"""Alerting: what counts as wrong, what becomes of it, and how people are told.

What belongs here: rules (`alerting.rules`), their kinds (`alerting.kinds`) and their files
(`alerting.rule_files`); the life of incidents (`alerting.incidents`, kept by `alerting.store`);
looking at the pipeline itself (`alerting.watch`); silences (`alerting.silences`); and the outbox
(`alerting.outbox`) with the channels it tells by (`alerting.channels`). Plain Python that reads
tables through ``lake``. What does not belong here: finding out of which rows a rule is true, which
is a computation (``spark.alerts``), and deciding when to look (``orchestration``).
"""
