"""Expectations: what must hold of the tables, judged by Great Expectations on Spark.

What belongs here: the row rules of each table (`expectations.suites`, made with the constructors of
`expectations.rules`), the columns that rules need beside a row's own (`expectations.annotate`), the
split into good rows and quarantine (`expectations.quarantine`), the text of a row by which people
decide on it (`expectations.json_rows`), and the one adapter that runs a suite and returns verdicts
(`expectations.adapter`). What does not: reading or writing tables, Dagster checks (``assets``),
alert rules on what the numbers mean (``alerting``).

A rule is declared once. Its condition is what Great Expectations counts and what splits off the
quarantine, so the two cannot disagree.
"""
