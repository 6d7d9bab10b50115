"""Alert rules: their model, their kinds, their files, and the ready-made ones.

What belongs here: the fields of rules and the reader of rule files. What does not: evaluating a
rule on rows (``spark.alerts``).
"""
