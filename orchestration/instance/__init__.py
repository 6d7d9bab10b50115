"""The embedded Dagster instance: its files, launcher, event log, engine and fork server.

What belongs here: everything that only the embedded deployment needs, and the only code that
touches private modules of Dagster. What does not: anything that a deployment with its own Dagster
instance uses.
"""
