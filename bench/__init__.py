"""Benchmarks and endurance: figures and proofs that take longer than a test may.

What belongs here: what a query and a tick cost against their peers (`bench.tick`), and how ticks
survive being killed again and again (`bench.soak`). What does not: anything the product needs, and
tests that pass or fail within the test command.
"""
