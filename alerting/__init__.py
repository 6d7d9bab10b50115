"""Alerting: what counts as wrong, what becomes of it, and how people are told.

What belongs here: rules and the files they are written in (`alerting.rules`, their kinds in
`alerting.kinds`), the life of incidents (`alerting.incidents`, kept by `alerting.store`), looking
at the pipeline itself (`alerting.watch`), silences (`alerting.silences`), and the outbox
(`alerting.outbox`) with the channels it tells by (`alerting.channels`). Plain Python that reads
tables through ``lake``. What does not belong here: finding out of which rows a rule is true, which
is a computation (``spark.alerts``), and deciding when to look (``orchestration``).
"""
