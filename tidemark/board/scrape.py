"""``/metrics``: the page for Prometheus, kept ready by a thread of its own."""

import logging
import threading
from collections.abc import Callable

from fastapi import APIRouter, Request, Response

from tidemark.board.metrics.endpoint import Metrics
from tidemark.board.metrics.exposition import Page
from tidemark.board.metrics.feed import Feed
from tidemark.board.store import Store
from tidemark.host.failures import one_line
from tidemark.settings.sections import MetricsSettings

FIRST_SECONDS = 20.0
"""Longest wait of a scrape for the first metrics after the start."""

_log = logging.getLogger(__name__)

router = APIRouter(tags=["metrics"])


class MetricsKeeper:
    """Keeps the metrics of a store ready, so that no scrape waits for files."""

    def __init__(self, store: Store, settings: MetricsSettings, version: str) -> None:
        """Nothing is read before `start`."""
        self._store = store
        self._metrics = Metrics(settings)
        self._feed = Feed(store.lake, self._metrics, version)
        self._ready = threading.Event()

    def page(self, accept: str, accept_encoding: str) -> Page:
        """Return the response to a scrape; right after the start it waits for the first metrics."""
        self._ready.wait(FIRST_SECONDS)
        return self._metrics.page(accept, accept_encoding)

    def refresh(self) -> None:
        """Take over the rows of the store; if that fails the old metrics stay."""
        try:
            self._feed.refresh(self._store.newest)
        # Whatever the error of the tables is, the server keeps the metrics that it has.
        except Exception as error:
            _log.warning("metrics cannot be refreshed: %s", one_line(error))
        self._ready.set()

    def start(self) -> Callable[[], None]:
        """Refresh in a thread whenever the store has other rows; return a function that ends it."""
        ended = threading.Event()

        def follow() -> None:
            seen = -1
            while not ended.is_set():
                changes = self._store.wait(seen, ended)
                if changes != seen:
                    seen = changes
                    self.refresh()

        thread = threading.Thread(target=follow, name="board-metrics", daemon=True)
        thread.start()

        def end() -> None:
            ended.set()
            self._store.wake()
            thread.join(timeout=10)

        return end


@router.get("/metrics", summary="Metrics of the newest observation, for Prometheus")
def scrape(request: Request) -> Response:
    """Respond in Prometheus text or OpenMetrics, as the header ``Accept`` requests."""
    keeper: MetricsKeeper = request.app.state.metrics
    headers = request.headers
    page = keeper.page(headers.get("accept", ""), headers.get("accept-encoding", ""))
    # The encoding is named also where there is none: no middleware compresses the page again.
    named = {
        "Content-Type": page.content_type,
        "Content-Encoding": page.encoding or "identity",
        "Vary": "Accept, Accept-Encoding",
    }
    return Response(page.body, headers=named)
