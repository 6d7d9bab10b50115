"""The embedded Dagster instance: its files, launcher, event log, engine and fork server.

What belongs here: code that only the embedded deployment needs, and all code that uses private
modules of Dagster. What does not: code that a deployment with its own Dagster instance uses.
"""
