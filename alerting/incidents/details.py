"""Incidents for programs, as ``GET /api/v1/incidents/{id}`` returns and webhooks get them."""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec


def with_evidence(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return a row of ``alerting.incidents`` with its evidence decoded.

    `row` is the part of the evidence that people need first: the row for which its rule was
    true.
    """
    try:
        evidence = msgspec.json.decode(row["evidence"] or "{}")
    except msgspec.DecodeError:
        evidence = {}
    labels = row["labels"] or {}
    return {**row, "labels": labels, "evidence": evidence, "row": evidence.get("row", {})}


def details(row: Mapping[str, Any], notifications: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return a row of incidents with its evidence and its rows of ``alerting.notifications``."""
    return with_evidence(row) | {"notifications": list(notifications)}
