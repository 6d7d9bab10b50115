"""Metrics: the newest observation of every cluster, as Prometheus and OpenMetrics read it.

What belongs here: one declaration for each metric, in three families, and their exposition. What
does not belong here: reading the tables of a home, and serving HTTP.
"""
