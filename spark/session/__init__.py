"""Spark sessions: their configuration, the engine that runs share, and the jars both need.

What belongs here: everything about how a session is reached and set. What does not: any
computation.
"""
