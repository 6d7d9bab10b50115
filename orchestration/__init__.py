"""Orchestration: what runs when, with what.

What belongs here: configured resources, jobs, the schedule, sensors, and the `Definitions` that
Dagster loads (``orchestration.definitions``). What does not: what an asset is (``assets``) and
any computing.
"""
