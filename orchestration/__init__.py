"""Orchestration: Dagster's jobs, and the schedules, sensors and resources of runs.

What belongs here: resources, jobs, schedules, sensors, the `Definitions` that Dagster loads, and in
`instance` what the embedded deployment adds to Dagster. What does not: what an asset is
(``assets``) and any computation.
"""
