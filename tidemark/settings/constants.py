"""Values of the contract that several rooms share. They are not settings: nobody changes them."""

from datetime import timedelta

MEMORY = timedelta(hours=24)
"""Time for which an unreachable broker, and the groups on it, are reported as unknown."""

OBSERVATIONS = 10
"""Observations of a group, the newest included, from which its health is computed."""
