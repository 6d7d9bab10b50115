"""Spark: the session, the warm engine, and the computations.

What belongs here: how a session is configured (`spark.session`), the local Spark Connect server
that ticks share (`spark.engine`), and one module per question of pure ``DataFrame -> DataFrame``
functions. Such a function opens no session, reads no table and collects nothing. What does not
belong here: Dagster, and deciding which window is computed (``assets``).
"""
