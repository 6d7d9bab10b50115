"""The lake: one declaration per table, the catalog, landing files and reads without Spark.

What belongs here: table declarations (`lake.tables`), where things lie (`settings.home`), the
folders a collector writes (`lake.landing`), loading them into ``raw.*`` (`lake.loading`), and
reading or writing small tables from plain Python (`lake.catalog`). What does not: computing
(``spark``), validating (``expectations``), anything that talks to a broker (``rocketmq``).
"""
