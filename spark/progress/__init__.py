"""Computations of ``progress.*``: one module per table, column family or concept behind one.

What belongs here: pure functions from frames to a frame. What does not: reading and replacing
windows (``assets``), and alert rules (``spark.alerts``).
"""
