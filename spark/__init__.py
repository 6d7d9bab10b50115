"""Spark: sessions, and the computations as pure functions from frames to a frame.

What belongs here: `session` (configuration and engine), `progress` (one module per table or column
family of ``progress.*``) and `alerts` (evaluation of alert rules). A computation opens no session,
reads no table and runs no job. What does not belong here: Dagster, and the choice of a window.
"""
