"""The lake: one declaration per table, the catalog, landing files and reads without Spark.

What belongs here: table declarations (`lake.tables`), the folders that a collector writes
(`lake.landing`), loading them into ``raw.*`` (`lake.loading`), and reading or writing small tables
from plain Python (`lake.catalog`). What does not: computing (``spark``), validating
(``expectations``), places of files (`settings.home`), requests to brokers (``rocketmq``).
"""
