"""Declaration of a Grafana dashboard: variables, rows, panels and expressions."""

from collections.abc import Mapping
from dataclasses import dataclass, field

BOARD = "board"
"""The variable that holds the address of the board."""


@dataclass(frozen=True, kw_only=True)
class Link:
    """A link of a panel's rows or series.

    Attributes:
        title: where it leads.
        path: uid of another dashboard, or a path of the board, which begins with ``/``.
        labels: variable of the dashboard, or parameter of the path, to the label it is set to.
    """

    title: str
    path: str
    labels: Mapping[str, str] = field(default_factory=dict)


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
        links: of each row or series.
    """

    title: str
    queries: tuple[tuple[str, str], ...]
    unit: str = "short"
    kind: str = "series"
    width: int = 12
    description: str = ""
    links: tuple[Link, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Variable:
    """A variable of a dashboard, chosen from the values of a label."""

    name: str
    label: str
    query: str
    includes_all: bool = True


@dataclass(frozen=True, kw_only=True)
class Annotation:
    """Marks on all charts of a dashboard, for as long as an expression has samples.

    Attributes:
        name: its name in the list of annotations.
        title: of a mark, with labels in double braces.
        expression: its samples are the marks.
        color: a name of Grafana's.
    """

    name: str
    title: str
    expression: str
    color: str


@dataclass(frozen=True, kw_only=True)
class Board:
    """One dashboard.

    Attributes:
        path: the page of the board that shows the same, with variables of the dashboard.
    """

    uid: str
    title: str
    description: str
    variables: tuple[Variable, ...]
    rows: tuple[tuple[str, tuple[Panel, ...]], ...]
    path: str
    annotations: tuple[Annotation, ...] = ()
