"""The lake: one declaration per table, the catalog, landing files and reads without Spark.

What belongs here: table declarations (`tidemark.lake.tables`), the folders that a collector writes
(`tidemark.lake.landing`), loading them into ``raw.*`` (`tidemark.lake.loading`), and reading or
writing small tables from plain Python (`tidemark.lake.catalog`). What does not: computing
(``spark``), validating (``expectations``), places of files (`tidemark.settings.home`), requests to
brokers (``rocketmq``).
"""
