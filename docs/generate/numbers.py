"""The page on the meaning of each number, from `tidemark.rocketmq.consume_modes`."""

from docs.generate.markdown import code, page, table
from tidemark.rocketmq.consume_modes import COVERS, NUMBERS, Cell, Certainty, Kind, Number

_COLUMNS = ("number", "is", "from", "why")


def numbers_page() -> str:
    """Return the page of every number of every kind of consumption."""
    names = [code(kind) for kind in Kind]
    rows = [
        (code(number), *(NUMBERS[kind][number].certainty for kind in Kind)) for number in Number
    ]
    parts = ["## All kinds", table(("number", *names), rows)]
    for kind in Kind:
        cells = [
            (code(number), cell.certainty, _sources(cell), cell.why)
            for number, cell in NUMBERS[kind].items()
        ]
        parts += [f"## {kind}", f"{COVERS[kind][0].upper()}{COVERS[kind][1:]}."]
        parts.append(table(_COLUMNS, cells))
    return page(
        "What each number is",
        "How a group consumes decides what its numbers state. A fact is what it seems to be. A "
        f"*{Certainty.LOWER_BOUND}* is at most the truth and has a mark wherever it is shown; an "
        f"*{Certainty.UPPER_BOUND}* is at least the truth. A number that is *unknown* is NULL, "
        "unless a witness in the third column reports it. `consume_kind` of `progress.queues` and "
        "`progress.groups` names the kind of a row. The codes are requests to brokers; "
        "`/metrics` is the broker's own endpoint, which `broker_metrics` turns on.",
        *parts,
    )


def _sources(cell: Cell) -> str:
    names = [f"{request.name} ({request.value})" for request in cell.requests]
    return ", ".join([*map(code, names), *([code("/metrics")] if cell.metrics else [])])
