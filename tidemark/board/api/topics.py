"""``/topics``: topics, their queues and the groups that consume them."""

from datetime import datetime
from typing import Annotated

from fastapi import APIRouter, Depends, Query, Response

from tidemark.board.dependencies import At, Cluster, Cursor, Limit, TheView, part_of
from tidemark.board.http_responses import json_response, object_model, page_model, row_model
from tidemark.board.views.clusters import (
    PARTS,
    PRODUCERS,
    TOPICS,
    producer_rows,
    topic_details,
    topic_rows,
)
from tidemark.board.views.parameters import Order, containing, having, page, shown
from tidemark.lake.typed_rows import dict_rows

router = APIRouter(tags=["topics"])


@router.get("/topics", summary="Topics", responses={200: {"model": page_model(TOPICS)}})
def topics(
    view: TheView,
    cluster: Annotated[str | None, Query(description="only of this cluster")] = None,
    q: Annotated[str, Query(description="a part of the name")] = "",
    kind: Annotated[str | None, Query(description="only of this kind: normal, retry, ...")] = None,
    sort: Annotated[str, Query(description="a column; `-` before it: largest first")] = "topic",
    at: At = None,
    limit: Limit = 100,
    cursor: Cursor = None,
) -> Response:
    """Return a row per topic at the newest snapshot, or as of an instant."""
    rows = having(topic_rows(shown(view, at)), cluster=cluster, kind=kind)
    rows = containing(rows, q, ("topic",))
    listed, following = page(rows, TOPICS, Order.of(sort, TOPICS), limit, cursor)
    return json_response({"items": dict_rows(listed), "next_cursor": following})


_DETAILS = object_model(
    "TopicDetails",
    "A topic at a snapshot.",
    cluster=(str, "the cluster"),
    topic=(str, "the topic"),
    observed_at=(datetime, "start of the snapshot"),
    **{name: (list[row_model(table)], table.comment) for name, table in PARTS.items()},  # pyright: ignore
    producers=(list[row_model(PRODUCERS)] | None, PRODUCERS.comment),  # pyright: ignore
)


@router.get(
    "/topics/{cluster}/{topic}",
    summary="A topic: configuration, queues, groups",
    responses={200: {"model": _DETAILS}},
)
def topic(
    view: TheView,
    cluster: Cluster,
    topic: Annotated[str, Depends(part_of("topic"))],
    at: At = None,
) -> Response:
    """Return what is known of a topic at the newest snapshot, or as of an instant."""
    rows = shown(view, at)
    details = topic_details(rows, cluster, topic)
    return json_response(details | {"producers": producer_rows(view, rows, cluster, topic)})
