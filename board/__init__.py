"""The board: the tables over HTTP, as pages for people and as an API for programs.

What belongs here: reading the newest rows and the past of tables, the API, the pages, and who may
see and do what. What does not belong here: anything that computes, judges or collects, and how an
incident changes its state (``alerting``). Nothing here needs Spark or Dagster.
"""
