"""Alert rules: their model, their kinds, their files, and the ready-made ones.

What belongs here: what a rule may contain and how a file of rules is read. What does not:
evaluating a rule on rows (``spark.alerts``).
"""
