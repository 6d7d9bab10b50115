"""The HTTP application: its addresses, probes, changes as events, the response to every failure."""

import asyncio
import gc
import logging
import sys
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from http import HTTPStatus
from importlib.metadata import version

from anyio import to_thread
from fastapi import APIRouter, Depends, FastAPI, Request, Response
from fastapi.concurrency import run_in_threadpool
from fastapi.exceptions import RequestValidationError
from fastapi.security.http import HTTPBase
from starlette.exceptions import HTTPException
from starlette.middleware.gzip import GZipMiddleware
from starlette.responses import StreamingResponse
from starlette.staticfiles import StaticFiles

from tidemark.alerting.recorded_actions import RefusalCounter
from tidemark.board.access import AccessMiddleware, Login, Person
from tidemark.board.api import clusters, events, groups, incidents, live, people, topics
from tidemark.board.dependencies import (
    TheStore,
    free_of_groups,
    only_known_parameters,
    paths,
    readable,
    require_views,
)
from tidemark.board.http_responses import (
    Problem,
    ProblemError,
    json_response,
    object_model,
    problem,
    strict_headers,
)
from tidemark.board.metrics import feed
from tidemark.board.metrics.endpoint import Exports
from tidemark.board.metrics.feed import MetricsKeeper
from tidemark.board.metrics.otlp import OtlpExporter
from tidemark.board.middleware import (
    AwakeMiddleware,
    HeadMiddleware,
    Limits,
    LimitsMiddleware,
    RefusalsMiddleware,
    SegmentsMiddleware,
)
from tidemark.board.newest import age_seconds, is_fresh
from tidemark.board.pages import brokers as brokers_pages
from tidemark.board.pages import choices, layout, overview, quality, tables, why
from tidemark.board.pages import groups as groups_pages
from tidemark.board.pages import incidents as incidents_pages
from tidemark.board.pages.layout import Dagster
from tidemark.board.store import Store
from tidemark.board.views.live import Diagnoses, LiveSnapshots
from tidemark.board.views.view import Views
from tidemark.host.failures import DamagedError, one_line
from tidemark.settings.basics import SettingsError
from tidemark.settings.clusters import Cluster
from tidemark.settings.owners import WatchedOwners
from tidemark.settings.sections import MetricsSettings, OtlpSettings

change_routes = APIRouter(include_in_schema=False)

CHECK_SECONDS = 1.0
ALIVE_CHECKS = 15
"""Checks between two signs of life, without which proxies close the connection."""


@change_routes.get("/changes")
@free_of_groups
async def changes(request: Request, store: TheStore) -> StreamingResponse:
    """Send the number of changes, now and at every change, as server-sent events."""

    async def events() -> AsyncIterator[str]:
        seen, checks = -1, 0
        while not await request.is_disconnected():
            store.note_request()
            if store.changes != seen:
                seen = store.changes
                yield f"data: {seen}\n\n"
            elif checks % ALIVE_CHECKS == 0:
                yield ": alive\n\n"
            checks += 1
            await asyncio.sleep(CHECK_SECONDS)

    return StreamingResponse(events(), media_type="text/event-stream")


SCHEMES = (
    HTTPBase(
        scheme="bearer",
        scheme_name="token",
        description="`TIDEMARK_SERVE_TOKEN`, or `TIDEMARK_SERVE_READ_TOKEN` to read",
        auto_error=False,
    ),
    HTTPBase(
        scheme="basic",
        scheme_name="password",
        description="a user of the file `TIDEMARK_SERVE_USERS`",
        auto_error=False,
    ),
)
"""Ways to log in, for the document of the API. `AccessMiddleware` decides before any route."""

probe_routes = APIRouter(tags=["probes"])


_STATE = object_model("State", "Whether the board can respond.", status=(str, "ok | unavailable"))
_READINESS = object_model(
    "Readiness",
    "Whether tables are readable and every cluster is fresh.",
    _STATE,
    reasons=(list[str], "why not, a line each"),
)


@probe_routes.get("/healthz", summary="The process is up", responses={200: {"model": _STATE}})
@free_of_groups
async def healthz() -> Response:
    """Respond 200 while the process serves requests."""
    return json_response({"status": "ok"})


@probe_routes.get(
    "/readyz",
    summary="Tables are readable and the collection is fresh",
    dependencies=[*map(Depends, SCHEMES)],
    responses={200: {"model": _READINESS}, 503: {"model": _READINESS}},
)
@free_of_groups
async def readyz(store: TheStore) -> Response:
    """Respond 200 if tables are readable and every cluster is fresh, else 503 with the reasons."""
    now = datetime.now(UTC)
    if not store.was_read:
        reason = "the tables are being read for the first time"
        return json_response({"status": "unavailable", "reasons": [reason]}, 503)
    newest = store.newest
    reasons = [] if store.problem is None else [store.problem]
    if not newest.at and not reasons:
        reasons.append("nothing is computed yet: run tidemark tick, or start the daemon")
    for cluster, observed_at in newest.at.items():
        if not is_fresh(observed_at, now):
            age = age_seconds(observed_at, now) or 0
            reasons.append(f"the newest snapshot of {cluster} is {age:.0f} s old")
    return json_response(
        {"status": "unavailable" if reasons else "ok", "reasons": reasons}, 503 if reasons else 200
    )


API = "/api/v1"

THREADS = 16
"""Requests that are computed at once."""

SWITCH_SECONDS = 0.0005
"""Time for which a thread computes before it yields. One thread serves all probes and connections.
By default any other thread had ten times as long before its turn, and `/healthz` waited for it."""

_log = logging.getLogger(__name__)


def application(
    store: Store,
    metrics: MetricsSettings | None = None,
    login: Login | None = None,
    configured: Callable[[], Sequence[Cluster]] = tuple,
    person: str = "somebody",
    limits: Limits = Limits(),  # noqa: B008 - it is frozen
    dagster_url: str = "",
    *,
    serves_agents: bool = False,
    owners: WatchedOwners | None = None,
    otlp: OtlpSettings | None = None,
) -> FastAPI:
    """Return the application of a store, which it starts and ends.

    Args:
        store: the newest rows.
        metrics: the families of metrics that are exported; the defaults without.
        login: how users are authenticated; None where no login is needed.
        configured: returns the clusters that a live snapshot may be taken of.
        person: recorded with actions where no login is needed.
        limits: bounds of a request.
        dagster_url: public address of Dagster's web server; empty where none is known.
        serves_agents: whether agents get their tools at ``/mcp``; it needs the extra ``mcp``.
        owners: the teams of groups; None where nobody declares any.
        otlp: where metrics are sent by OTLP, which needs the extra ``otlp``; None: nowhere.
    """
    owners = owners or WatchedOwners()
    exports = Exports() if otlp else None
    refusals = RefusalCounter(store.lake.shared)
    keeper = MetricsKeeper(
        store, metrics or MetricsSettings(), version("tidemark"), owners, exports
    )

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        to_thread.current_default_thread_limiter().total_tokens = THREADS
        before = sys.getswitchinterval()
        sys.setswitchinterval(SWITCH_SECONDS)
        # All that is imported stays. To search it for garbage stops every thread for 0.1 s.
        gc.freeze()
        ends = [store.start(), keeper.start(), store.start_copies(), refusals.start()]
        if otlp and exports:
            ends.append(OtlpExporter(otlp, keeper.rows, exports).start())
        yield
        for end in reversed(ends):
            end()
        gc.unfreeze()
        sys.setswitchinterval(before)

    app = FastAPI(
        title="Tidemark",
        description="How far every RocketMQ consumer has got, how late it is and what will go "
        "wrong. Times are ISO 8601 UTC, unknown is null.",
        version=version("tidemark"),
        openapi_url=f"{API}/openapi.json",
        # Their pages load scripts from elsewhere.
        docs_url=None,
        redoc_url=None,
        lifespan=lifespan,
        dependencies=[Depends(only_known_parameters)],
        responses={
            "4XX": {"model": Problem, "description": "the request is wrong"},
            "5XX": {"model": Problem, "description": "the tables cannot be read"},
        },
    )
    app.state.store, app.state.metrics, app.state.refusals = store, keeper, refusals
    app.state.query_parameters = {}
    app.state.dagster = Dagster(url=dagster_url)
    snapshots = LiveSnapshots(store.lake.shared.state, configured)
    app.state.views = Views(store, owners, snapshots, Diagnoses(snapshots))
    app.add_middleware(GZipMiddleware, minimum_size=1000)
    app.add_middleware(AwakeMiddleware, store=store)
    app.add_middleware(AccessMiddleware, login=login or Login(), local=Person(person, may_act=True))
    app.add_middleware(SegmentsMiddleware)
    app.add_middleware(HeadMiddleware)
    parts: set[str] = set()
    app.add_middleware(RefusalsMiddleware, count=refusals.count, parts=parts)
    app.add_middleware(LimitsMiddleware, limits=limits)
    _include_routes(app)
    if serves_agents:
        from tidemark.board import agents  # its packages are an extra

        agents.mount(app, agents.server(app.state.views), limits.body)
    parts.update(path.split("/")[1] for path in paths(app.routes))
    _handle_failures(app)
    # Files, the description of the API, and the tools for agents, which read views too.
    require_views(app.routes, ("/static", f"{API}/openapi.json", "/mcp"))
    return app


def _include_routes(app: FastAPI) -> None:
    """Add the API, the addresses that programs poll, the pages and their files."""
    api = APIRouter(prefix=API, dependencies=[Depends(readable), *map(Depends, SCHEMES)])
    for module in (clusters, groups, topics, incidents, events, people, live):
        api.include_router(module.router)
    app.include_router(api)
    app.include_router(probe_routes)
    app.include_router(feed.router, dependencies=[*map(Depends, SCHEMES)])
    app.include_router(change_routes)
    for module in (
        *(overview, groups_pages, brokers_pages, incidents_pages, why, tables, quality),
        choices,
    ):
        app.include_router(module.router)
    app.mount("/static", StaticFiles(directory=layout.ROOM / "static"))


def _handle_failures(app: FastAPI) -> None:
    @app.exception_handler(ProblemError)
    async def problem_of(request: Request, error: ProblemError) -> Response:
        return await _failure(request, error.status, error.detail, error.headers)

    @app.exception_handler(HTTPException)
    async def http_error(request: Request, error: HTTPException) -> Response:
        return await _failure(request, error.status_code, str(error.detail), error.headers)

    @app.exception_handler(RequestValidationError)
    async def wrong(request: Request, error: RequestValidationError) -> Response:
        places = ((".".join(map(str, item["loc"][1:])), item["msg"]) for item in error.errors())
        texts = (f"{place}: {text}" if place else text for place, text in places)
        return await _failure(request, 400, "; ".join(texts))

    @app.exception_handler(SettingsError)
    @app.exception_handler(DamagedError)
    async def damaged(request: Request, error: Exception) -> Response:
        return await _failure(request, 503, one_line(error))

    @app.exception_handler(Exception)
    async def failed(request: Request, error: Exception) -> Response:
        # The text of an error may contain secrets, so it goes to the log and not to the client.
        text = "this request failed; see the log of tidemark serve"
        # Starlette responds to it outside of all middleware.
        return await _failure(request, 500, text, strict_headers(request.url.path))


async def _failure(
    request: Request, status: int, detail: str, headers: Mapping[str, str] | None = None
) -> Response:
    """Return a page to a person at a page, and a problem to a program."""
    is_page = not request.url.path.startswith((API, "/metrics", "/healthz", "/readyz"))
    # A form is of a page, whatever its sender accepts.
    is_read = request.method == "POST" or "text/html" in request.headers.get("accept", "")
    if not is_page or not is_read:
        return problem(status, detail, headers)
    # Where the API lists what there is helps programs; people have the pages.
    context = {"title": HTTPStatus(status).phrase, "detail": detail.partition(": GET /api/")[0]}
    response = await run_in_threadpool(layout.html, request, "problem.html", context, status)
    response.headers.update(headers or {})
    return response
