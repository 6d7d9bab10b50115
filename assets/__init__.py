"""Dagster assets and asset checks: the tables, how each is computed, and how it is validated.

An asset's key is the name of its table. Its body is thin: find the window, read, call one pure
function of ``spark``, replace the window, report metadata. What belongs here in addition: the
partitions and the resource classes that bodies name. What does not: a business rule (``spark``,
``expectations``, ``alerting``) and the times of runs (``orchestration``).
"""
