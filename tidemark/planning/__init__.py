"""Plans of runs: windows, parts, loaded snapshots, previous observations, the frozen plan.

What a run needs to know before it computes belongs here, decided once. Nothing computes here.
"""
