"""The board: the tables over HTTP, as pages for people and as an API for programs.

What belongs here: reading the newest rows and the past of tables, the rows that a person sees, the
API, the pages, and the rights of users. What does not belong here: computation, evaluation of
rules, collection, and changes of an incident's state (``alerting``). Nothing here needs Spark or
Dagster.
"""
