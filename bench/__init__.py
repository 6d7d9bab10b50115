"""Benchmarks and endurance: figures and proofs that take longer than a test may.

What belongs here: the cost of a query and of a tick compared with peers (`bench.tick`), and the
proof that ticks survive repeated kills (`bench.soak`). What does not: anything the product needs,
and tests that pass or fail within the test command.
"""
