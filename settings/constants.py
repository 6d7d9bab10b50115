"""Values of the contract that several rooms share. They are not settings: nobody changes them."""

from datetime import timedelta

MEMORY = timedelta(hours=24)
"""How long an unreachable broker, and the groups on it, are reported as unknown."""

OBSERVATIONS = 10
"""How many observations of a group, the newest included, its health is computed from."""
