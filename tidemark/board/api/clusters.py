"""``/clusters``: the collected clusters, their brokers, and the age of the newest snapshot."""

from datetime import UTC, datetime

from fastapi import APIRouter, Response

from tidemark.board.api.groups import forecasts_model
from tidemark.board.dependencies import Cluster, TheView
from tidemark.board.http_responses import json_response, object_model, page_of, row_model
from tidemark.board.trends import BROKERS
from tidemark.board.views.clusters import cluster_rows
from tidemark.lake.tables import raw
from tidemark.lake.typed_rows import dict_rows

router = APIRouter(tags=["clusters"])


_CLUSTER = object_model(
    "ClusterRow",
    "A collected cluster: its newest computed snapshot.",
    row_model(raw.SNAPSHOTS),
    age_seconds=(float, "time since the snapshot started"),
    fresh=(bool, "whether it is at most some collections old"),
    brokers=(list[str], "names of broker groups"),
)

_BROKER = object_model(
    "BrokerRow",
    "A broker at one of its addresses.",
    row_model(raw.BROKERS),
    forecasts=forecasts_model(BROKERS),
)


@router.get(
    "/clusters",
    summary="Clusters, their newest snapshot and how old it is",
    responses={200: {"model": page_of(_CLUSTER)}},
)
def clusters(view: TheView) -> Response:
    """Return a row per cluster: its newest computed snapshot, its age and whether it is fresh."""
    return json_response(
        {"items": cluster_rows(view.newest, datetime.now(UTC)), "next_cursor": None}
    )


@router.get(
    "/clusters/{cluster}/brokers",
    summary="Brokers of a cluster at its newest snapshot",
    responses={200: {"model": page_of(_BROKER)}},
)
def brokers(view: TheView, cluster: Cluster) -> Response:
    """Return the rows of ``raw.brokers``; one that did not respond has nulls."""
    rows = view.newest.of(raw.BROKERS, cluster)
    rows = rows.sort_by([("broker", "ascending"), ("broker_id", "ascending")])
    items = view.with_forecasts(view.newest, BROKERS, dict_rows(rows))
    return json_response({"items": items, "next_cursor": None})
