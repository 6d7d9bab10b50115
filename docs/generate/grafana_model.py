"""Declaration of a Grafana dashboard: variables, rows, panels and expressions."""

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Panel:
    """One panel.

    Attributes:
        title: its title.
        queries: expressions with their legends.
        unit: unit of Grafana.
        kind: ``series`` | ``number`` | ``table``.
        width: of 24 columns.
        description: facts that the title does not show.
    """

    title: str
    queries: tuple[tuple[str, str], ...]
    unit: str = "short"
    kind: str = "series"
    width: int = 12
    description: str = ""


@dataclass(frozen=True, kw_only=True)
class Variable:
    """A variable of a dashboard, chosen from the values of a label."""

    name: str
    label: str
    query: str
    includes_all: bool = True


@dataclass(frozen=True, kw_only=True)
class Board:
    """One dashboard."""

    uid: str
    title: str
    description: str
    variables: tuple[Variable, ...]
    rows: tuple[tuple[str, tuple[Panel, ...]], ...]
