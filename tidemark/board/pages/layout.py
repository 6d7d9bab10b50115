"""Common layout of pages: templates, language, colours, the instant shown, links, and problems."""

import hashlib
import hmac
import secrets
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import quote, urlencode

from fastapi import Depends, Request, Response
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from starlette.responses import HTMLResponse

from tidemark.board.dependencies import At, TheView, check_readable
from tidemark.board.http_responses import ProblemError
from tidemark.board.newest import age_seconds, is_fresh
from tidemark.board.pages import wording
from tidemark.board.pages.charts import Words
from tidemark.board.pages.wording import CHINESE, reason
from tidemark.board.trends import Listed
from tidemark.board.views.parameters import instant_of, shown
from tidemark.board.views.view import SeenPoints, Shown
from tidemark.host import stages
from tidemark.host.processes import elsewhere
from tidemark.lake.bounds import ALL_MARKS
from tidemark.lake.tables import TABLES, raw
from tidemark.model.consumption import IdleReason
from tidemark.model.incidents import ActionKind

ROOM = Path(__file__).parent.parent

ENGLISH = {
    "consumer_group": "group",
    "delay_ms": "delay",
    "delay_error_ms": "error",
    "delay_source": "delay by",
    "produce_tps": "produced/s",
    "consume_tps": "consumed/s",
    "ack_tps": "acknowledged/s",
    "redelivered_tps": "handed out again/s",
    "inflight": "in flight",
    "inflight_source": "in flight by",
    "ready_delay_ms": "waits for a client",
    "perm": "permission",
    "disk_ratio": "disk used",
    "put_tps": "written/s",
    "get_tps": "read/s",
    "drain_seconds": "drained in",
    "loss_in_seconds": "loss in",
    "readable_lag": "readable lag",
    "filtered_lag": "filtered lag",
    "retry_lag": "retry lag",
    "queues_unknown": "unknown queues",
    "queue_id": "queue",
    "client_id": "member",
    "client_address": "address",
    "client_version": "client version",
    "consume_rt_ms": "listener call",
    "clients": "members",
    "clients_needed": "members needed",
    "needed_drain_seconds": "drained with them in",
    IdleReason.NO_READABLE_QUEUE: "no queue of its topics can be read",
    IdleReason.NOT_REBALANCED: "the strategy assigns it some, which it has not taken",
    IdleReason.MORE_CLIENTS_THAN_QUEUES: "there are more members than queues",
    IdleReason.HASH_LUCK: "the hash assigns it none",
    IdleReason.NO_QUEUE_IN_ROOM: "its machine room has no queue",
    IdleReason.NOT_CONFIGURED: "its configuration names no queue",
    "TOPICS": "their topics differ",
    "EXPRESSION": "their filter expressions differ",
    "EXPRESSION_TYPE": "their kinds of filter differ",
    "MESSAGE_MODEL": "their message models differ",
    "ALLOCATION_STRATEGY": "their allocation strategies differ",
    "FEW_MESSAGES": "too few messages were consumed to measure it",
    "NO_THREADS": "no member reports its threads",
    "dlq_messages": "dead letters",
    "newest_at": "newest",
    "oldest_at": "oldest",
    "timing_messages": "delayed messages",
    "dispatch_behind_bytes": "not dispatched",
    "producer_group": "producer group",
    "last_seen_at": "last seen",
    "connected_to": "connected to",
    "sends_waiting": "sends that wait",
    "send_wait_ms": "the first waits for",
    "page_cache_lock_ms": "write lock held for",
    "failed_writes": "not written since its start",
    "sends_refused": "refused since its start",
    "sends_failed": "failed since its start",
    "light_queue_limit": "light queues at most",
    "replica_behind_ms": "behind",
    "replica_behind_bytes": "bytes behind",
    "offsets_missing": "consumer offsets missing",
    "offsets_late": "consumer offsets late",
    "offsets_behind": "messages behind in offsets",
    "added_last_hour": "new in the last hour",
    "dead_letter_age_seconds": "oldest",
    "newest_age_seconds": "newest",
    "expires_in_seconds": "oldest deleted in",
    "retry_max_times": "attempts",
    "left_ratio": "budget left",
    "bad_seconds": "bad, of allowed",
    "burn_rate_1h": "burn rate, 1 h",
    "burn_rate_6h": "burn rate, 6 h",
    "unknown_seconds": "unknown time",
    "capacity_tps": "capacity/s",
    "peak_tps": "peak/s",
    "capacity_limit_tps": "limit/s",
    "thread_count": "threads",
    "expected_client_id": "should hold it",
    "actual_client_id": "holds it",
    ActionKind.DIAGNOSED: "requested stacks",
    ActionKind.UNSILENCED: "ended a silence",
    ActionKind.ANNOTATION_REMOVED: "removed an annotation",
}
"""Columns in the words of people, where their name is not; others lose their underscores."""

MEASURED_NOW = ("/live", "/plan")
"""Pages that need no computed snapshot."""

LIVE_CLUSTERS = 3
"""Clusters whose live snapshots a page shows while nothing is computed."""

LANGUAGES = {"en": "English", "zh": "中文"}
THEMES = ("auto", "light", "dark")

_KEY = secrets.token_bytes(32)

_environment = Environment(
    loader=FileSystemLoader(ROOM / "templates"),
    autoescape=True,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)
_environment.filters |= {
    "breaks": wording.breaks,
    "backticks": wording.backticks,
    "number": wording.number,
    "duration": wording.duration,
    "ms": wording.milliseconds,
    "instant": wording.instant,
    "iso": wording.iso,
}
_environment.globals |= {
    "cell": wording.cell,
    "MARKS": ALL_MARKS,
    "measured": wording.measured,
    "NAMES": wording.NAMES,
    "NUMBERS": wording.NUMBERS,
    "unknown": wording.why_unknown,
    "WORDS": wording.WORDS,
}


class Page:
    """A requested page: the rows that it shows, and its language.

    Attributes:
        rows: the newest rows, or those of the requested instant.
        at: that instant as it was written; empty for now.
        instant: that instant; None for now.
    """

    def __init__(self, request: Request, view: TheView, at: At = None) -> None:
        check_readable(view)
        self.request = request
        self.view = view
        self.at = at or ""
        self.instant = instant_of("at", self.at) if self.at else None
        self.rows: Shown = shown(view, self.at)

    def render(self, template: str, **context: Any) -> Response:
        """Return a template as HTML."""
        return html(self.request, template, self._common() | context)

    def phrase(self, text: str, **values: Any) -> str:
        """Return a text in the language of the person."""
        return _translated(_chosen(self.request), text, values)

    def url(self, path: str, **parameters: Any) -> str:
        """Return an address of the board that shows the same instant."""
        return address(path, parameters | {"at": self.at})

    @property
    def now(self) -> datetime:
        """The instant shown: the present, or the one of the past."""
        return self.instant or datetime.now(UTC)

    @property
    def end(self) -> datetime:
        """The last instant shown: a snapshot of a clock that is a little ahead is shown, too."""
        return self.instant or max(self.now, self.rows.observed_at or self.now)

    @cached_property
    def trends(self) -> SeenPoints:
        """The last hours of all groups."""
        return self.view.trends(self.rows)

    def points(self, listed: Listed) -> SeenPoints:
        """Return the last hours of topics or brokers."""
        return self.view.points(self.rows, listed)

    def reason(self, row: Mapping[str, Any]) -> str:
        """Return why a group has its state of health, in the language of the person."""
        return reason(row, self.phrase)

    @property
    def words(self) -> Words:
        """The words of marks on charts."""
        return Words(phrase=self.phrase, incident=self.incident)

    def incident(self, incident_id: str) -> str:
        """Return the address of an incident's page."""
        return self.url("/incident", id=incident_id)

    def _common(self) -> dict[str, Any]:
        now = datetime.now(UTC)
        stale = {} if self.at else {
            cluster: age_seconds(at, now)
            for cluster, at in self.rows.at.items()
            if not is_fresh(at, now)
        }  # fmt: skip
        return {
            "at": self.at,
            "url": self.url,
            "observed_at": self.rows.observed_at,
            "rows_read": self.rows.changes,
            "stale": stale,
            "problem": self.view.problem,
            "is_empty": not self.rows.at,
            "waiting": None if self.rows.at or self.at else self._waiting(),
            # Loading gives each row of raw.snapshots the brokers that were read.
            "raw_is_removed": self.rows.of(raw.SNAPSHOTS)["brokers_read"].null_count > 0,
        }

    def _waiting(self) -> Mapping[str, Any] | None:
        """Return what a page shows in place of rows before the first snapshot is computed."""
        if self.request.url.path in MEASURED_NOW:
            return None
        names = self.view.configured[:LIVE_CLUSTERS]
        command = f"{elsewhere()} --home {shlex.quote(str(self.view.home.path))} tick"
        return {
            "stage": stages.read(self.view.home),
            "steps": len(stages.Step),
            "clusters": names,
            "tick": command + ("" if names else " --namesrv HOST:9876"),
        }


ThePage = Annotated[Page, Depends(Page)]


def html(
    request: Request, template: str, context: Mapping[str, Any], status: int = 200
) -> Response:
    """Return a template as HTML, in the language and colours of the person."""
    language = _language(request)
    chosen = _chosen(request)

    def phrase(text: str, **values: Any) -> str:
        return _translated(chosen, text, values)

    person = getattr(request.state, "person", None)
    plain = {
        "at": "",
        "url": lambda path, **parameters: address(path, parameters),
        "observed_at": None,
        "rows_read": None,
        "stale": {},
        "problem": None,
        "is_empty": False,
        "waiting": None,
        "raw_is_removed": False,
    }
    common = {
        "_": phrase,
        "reason": lambda row: reason(row, phrase),
        "language": language,
        "languages": LANGUAGES,
        "theme": _theme(request),
        "path": request.url.path,
        "here": request.url.path + (f"?{request.url.query}" if request.url.query else ""),
        "person": person,
        "token": form_token(request),
        "dagster": request.app.state.dagster,
        "version": version("tidemark"),
    }  # fmt: skip
    text = _environment.get_template(template).render({**plain, **common, **context})
    return HTMLResponse(text, status)


def _chosen(request: Request) -> Mapping[str, str]:
    """Return the words of the language of the person, by the English ones."""
    return CHINESE if _language(request) == "zh" else {}


def _translated(chosen: Mapping[str, str], text: str, values: Mapping[str, Any]) -> str:
    translated = chosen.get(text) or ENGLISH.get(text)
    if translated is None:
        is_column = text.islower() and " " not in text and not values
        translated = text.replace("_", " ") if is_column else text
    return translated.format(**values) if values else translated


def address(path: str, parameters: Mapping[str, Any]) -> str:
    """Return an address with the parameters that are not empty."""
    given = {name: value for name, value in parameters.items() if value not in (None, "")}
    return f"{path}?{urlencode(given)}" if given else path


def form_token(request: Request) -> str:
    """Return the secret of every form of a page, which no foreign page can know."""
    person = getattr(request.state, "person", None)
    name = person.name if person else ""
    return hmac.new(_KEY, name.encode(), hashlib.sha256).hexdigest()


def check_form(request: Request, token: str) -> None:
    """Refuse a form that is not of a page of this board.

    Raises:
        ProblemError: it is not.
    """
    # As bytes: text with other characters than those of a token is not compared but an error.
    if not hmac.compare_digest(form_token(request).encode(), token.encode()):
        raise ProblemError(
            403, "this form is of another site, or older than this server: reload it"
        )


def _language(request: Request) -> str:
    chosen = request.cookies.get("language", "")
    if chosen in LANGUAGES:
        return chosen
    return _preferred(request.headers.get("accept-language", ""))


def _preferred(accepted: str) -> str:
    """Return the language with the largest weight in ``Accept-Language``; the first of equals."""
    weights: dict[str, float] = {}
    for part in accepted.lower().split(","):
        tag, _, parameter = part.partition(";")
        name, _, weight = parameter.partition("=")
        try:
            number = float(weight) if name.strip() == "q" else 1.0
        except ValueError:
            continue
        language = tag.strip().partition("-")[0]
        if language in LANGUAGES and 0 < number <= 1:
            weights[language] = max(number, weights.get(language, 0.0))
    return max(weights, key=lambda weight: weights[weight], default="en")


def _theme(request: Request) -> str:
    chosen = request.cookies.get("theme", "auto")
    return chosen if chosen in THEMES else "auto"


@dataclass(frozen=True, kw_only=True)
class Dagster:
    """The pages of Dagster's web server.

    Attributes:
        url: its public address; empty where none is known, and then all addresses are.
    """

    url: str = ""

    @property
    def runs(self) -> str:
        """The list of runs."""
        return self._page("runs")

    @property
    def daemons(self) -> str:
        """Whether daemons run."""
        return self._page("health")

    def run(self, run_id: str | None) -> str:
        """Return the page of a run."""
        return self._page(f"runs/{quote(run_id, safe='')}") if run_id else ""

    def checks(self, table: str, expectation: str = "") -> str:
        """Return the checks of a table's asset, and the one of an expectation where it has one."""
        detail = f"&checkDetail={quote(expectation, safe='')}" if expectation else ""
        return self._asset(table, f"?view=checks{detail}")

    def hours(self, table: str) -> str:
        """Return the hours of a table's asset, where a backfill of some begins."""
        return self._asset(table, "?view=partitions")

    def _asset(self, table: str, view: str) -> str:
        if table not in TABLES:
            return ""
        return self._page(f"assets/{table.replace('.', '/')}{view}")

    def _page(self, path: str) -> str:
        return f"{self.url.rstrip('/')}/{path}" if self.url else ""
