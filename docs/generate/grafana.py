"""Grafana dashboards of the metrics: ``python -m docs.generate.grafana`` writes them as JSON.

The JSON is committed under ``deploy/grafana/``; a test holds it to this module, and every
expression to the metrics that are exported.
"""

import json
import re
from pathlib import Path
from typing import Any

from grafana_foundation_sdk.builders import dashboard, prometheus, stat, table, timeseries
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models.dashboard import (
    DashboardLinkType,
    DataSourceRef,
    VariableRefresh,
    VariableSort,
)
from grafana_foundation_sdk.models.prometheus import PromQueryFormat

from docs.generate.grafana_model import BOARD, Board, Link, Panel, Variable
from docs.generate.grafana_panels import DASHBOARDS

FOLDER = Path(__file__).parents[2] / "deploy" / "grafana"
OF_CHART = FOLDER.parent / "helm" / "tidemark" / "dashboards"

DEFAULT_BOARD = "http://127.0.0.1:8080"
"""Address of the board until a person, or the chart, sets another."""

_ON_BOARD = f"${{{BOARD}:raw}}"
_SOURCE = DataSourceRef(type_val="prometheus", uid="${datasource}")
_BUILDERS = {"series": timeseries.Panel, "number": stat.Panel, "table": table.Panel}


def dashboards() -> dict[str, str]:
    """Return file name to the JSON of every dashboard."""
    return {f"{board.uid}.json": _json(board) for board in DASHBOARDS}


def expressions(text: str) -> list[str]:
    """Return every expression and every query of a variable in the JSON of a dashboard."""
    texts: list[str] = []

    def visit(value: Any) -> None:
        if isinstance(value, dict):
            texts.extend(value[key] for key in ("expr", "query") if isinstance(value.get(key), str))
            for inner in value.values():
                visit(inner)
        elif isinstance(value, list):
            for inner in value:
                visit(inner)

    visit(json.loads(text))
    return [text for text in texts if re.search(r"rocketmq_|tidemark_", text)]


def _json(board: Board) -> str:
    made = (
        dashboard.Dashboard(board.title)
        .uid(board.uid)
        .description(board.description)
        .tags(["tidemark", "rocketmq"])
        .refresh("30s")
        .time("now-6h", "now")
        .timezone("browser")
        .readonly()
        .link(
            dashboard.DashboardLink("Tidemark")
            .type(DashboardLinkType.DASHBOARDS)
            .tags(["tidemark"])
            .keep_time(True)
            .include_vars(True)
        )
        .link(
            dashboard.DashboardLink("Board")
            .type(DashboardLinkType.LINK)
            .icon("external link")
            .url(_ON_BOARD + board.path)
        )
        .with_variable(
            dashboard.DatasourceVariable("datasource").label("Source").type("prometheus")
        )
    )
    for annotation in board.annotations:
        made = made.annotation(
            dashboard.AnnotationQuery()
            .name(annotation.name)
            .enable(True)
            .datasource(_SOURCE)
            .expr(annotation.expression)
            .icon_color(annotation.color)
        )
    for variable in board.variables:
        made = made.with_variable(_variable(variable))
    made = made.with_variable(
        dashboard.TextBoxVariable(BOARD).label("Board").default_value(DEFAULT_BOARD)
    )
    for title, panels in board.rows:
        made = made.with_row(dashboard.Row(title))
        for panel in panels:
            made = made.with_panel(_panel(panel))
    content = json.loads(JSONEncoder(sort_keys=True, indent=2).encode(made.build()))
    for row, annotation in zip(content["annotations"]["list"], board.annotations, strict=True):
        row["titleFormat"] = annotation.title  # of Prometheus, so not known to the builder
    return json.dumps(content, indent=2, sort_keys=True, ensure_ascii=False) + "\n"


def _variable(variable: Variable) -> dashboard.QueryVariable:
    return (
        dashboard.QueryVariable(variable.name)
        .label(variable.label)
        .query(variable.query)
        .datasource(_SOURCE)
        .refresh(VariableRefresh.ON_TIME_RANGE_CHANGED)
        .sort(VariableSort.ALPHABETICAL_ASC)
        .include_all(variable.includes_all)
        .all_value(".*")
        .multi(variable.includes_all)
    )


def _panel(panel: Panel) -> Any:
    made = (
        _BUILDERS[panel.kind]()
        .title(panel.title)
        .description(panel.description)
        .datasource(_SOURCE)
        .unit(panel.unit)
        .span(panel.width)
        .height(8 if panel.kind != "number" else 4)
        .no_value("unknown")
        .data_links([_link(link, panel.kind) for link in panel.links])
    )
    if panel.kind == "series":
        # Unknown values are not drawn over: a gap stays a gap.
        made = made.min(0).fill_opacity(8).span_nulls(False)
    for expression, legend in panel.queries:
        query = prometheus.Dataquery().expr(expression).legend_format(legend)
        if panel.kind == "table":
            query = query.instant().format(PromQueryFormat.TABLE)
        made = made.with_target(query)
    return made


def _link(link: Link, kind: str) -> dashboard.DashboardLink:
    """Return a data link; Grafana encodes what it puts in place of a label."""
    labels = "__data.fields" if kind == "table" else "__field.labels"
    values = {name: f"${{{labels}.{label}}}" for name, label in link.labels.items()}
    if link.path.startswith("/"):
        query = "&".join(f"{name}={value}" for name, value in values.items())
        return dashboard.DashboardLink(link.title).url(f"{_ON_BOARD}{link.path}?{query}")
    kept = ("${__url_time_range}", "${datasource:queryparam}", f"${{{BOARD}:queryparam}}")
    query = "&".join((*(f"var-{name}={value}" for name, value in values.items()), *kept))
    return dashboard.DashboardLink(link.title).url(f"/d/{link.path}?{query}")


def main() -> None:
    """Write the dashboards, and the chart's copies of them."""
    for folder in (FOLDER, OF_CHART):
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in dashboards().items():
            (folder / name).write_text(text)


if __name__ == "__main__":
    main()
