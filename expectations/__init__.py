"""Expectations: conditions on the rows of each table, validated by Great Expectations on Spark.

What belongs here, in the order in which the modules use each other:

* `declarations`: `Expectation` and the constructors of the common kinds,
* `annotations`: columns that a condition needs besides those of its table, copies among them,
* `tick_suites`, `audit_suites`: the expectations of each table, of ticks and of the hourly audit,
* `quarantine`: the split into valid and quarantined rows,
* `tolerances`: the settings file that changes single expectations,
* `brought_suites`: suites that people bring,
* `adapter`: validation of a suite by Great Expectations, `validation_results` its results,
  `data_docs` its pages,
* `gx_suite`: the types of Great Expectations.

What does not: reading or writing tables, Dagster checks (``assets``), and alert rules
(``alerting``).

An expectation is declared once. Great Expectations counts the rows that violate its condition, as
its built-in type where one means the same, and the same condition splits off the quarantine, so the
two cannot disagree.
"""
