"""SQL conditions on rows whose numbers may be bounds, or of which a part may be unknown."""

from lake.bounds import certain


def known(condition: str, *, part_suffices: bool = True) -> str:
    """Return SQL of whether a condition is true of a row; NULL where that is unknown.

    Neither the missing part of an incomplete row nor a bound makes a condition untrue: the truth
    may lie beyond the number.

    Args:
        condition: SQL about numbers of the row.
        part_suffices: whether the condition is true of the truth where it is true of the known
            part or of the bound, because the truth can only lie further on its side.
    """
    sure = certain(condition)
    if not part_suffices:
        return f"(CASE WHEN {sure} THEN {condition} END)"
    return (
        f"(CASE WHEN {condition} THEN true WHEN {sure} AND ({condition}) IS NOT NULL "
        "THEN false END)"
    )
