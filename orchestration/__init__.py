"""Orchestration: Dagster's jobs, and the schedules, sensors and resources of runs.

What belongs here: resources, jobs, schedules, sensors, the `Definitions` that Dagster loads, and in
`instance` the additions of the embedded deployment to Dagster. What does not belong here: assets
(``assets``) and any computation.
"""
