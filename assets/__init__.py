"""Dagster assets and asset checks: what exists.

An asset's key is the name of its table. Its body is thin: find the window, read, call one pure
function of ``spark``, replace the window, report metadata. What belongs here beside them: the
partitions and the resource classes that bodies name. What does not: a business rule (``spark``,
``expectations``, ``alerting``) and what runs when (``orchestration``).
"""

import warnings

import dagster as dg

# Backfill policies have been in beta for years; being told at every start helps nobody. Here, as
# any module of the package may be the first that is imported.
warnings.filterwarnings("ignore", category=dg.BetaWarning)
