"""Why a group gets no further: queue, owner, since when, doing what, what changed, what to do."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import msgspec
from fastapi import APIRouter, Response

from tidemark.alerting.rules.kinds import KINDS
from tidemark.board.http_responses import ProblemError
from tidemark.board.pages.layout import ROOM, Page, ThePage
from tidemark.board.pages.timeline import Entry, of_events, of_notes, within
from tidemark.board.views.groups import TROUBLE, rows_of_group
from tidemark.board.views.incidents import event_rows
from tidemark.board.views.series import history_of
from tidemark.lake.clocks import MICROSECOND, Window
from tidemark.lake.tables import progress, raw
from tidemark.live.diagnosis import read_diagnosis, with_words
from tidemark.model.consumption import AssignmentState, Condition
from tidemark.model.snapshots import SnapshotSource, SnapshotStatus
from tidemark.rocketmq.names import DLQ_PREFIX

router = APIRouter(include_in_schema=False)

RUNBOOKS = ROOM.parent.parent / "docs" / "runbooks"
"""Pages of the documentation; an installed wheel has none."""

BEFORE = timedelta(hours=1)
"""How far before the trouble changes are listed."""

AFTER = timedelta(minutes=5)
"""How far after its first observation: what changed a moment before is observed later."""

JUST_BEFORE = timedelta(minutes=10)
"""The last part of that time, whose rate is compared with the rest."""

MOST_CHANGES = 12
"""Changes that are listed, the newest first."""


@dataclass(frozen=True, kw_only=True)
class MemberChange:
    """Members that joined or left between two observations.

    Attributes:
        at: the first observation with the change.
        joined: client ids that are new.
        left: client ids that are gone.
        versions: versions of clients of those who joined, where no member had one of them before.
    """

    at: datetime
    joined: tuple[str, ...]
    left: tuple[str, ...]
    versions: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Rates:
    """Rates of production around the beginning of the trouble, messages a second; None unknown.

    Attributes:
        before: median of the hour before, without its end.
        just_before: median of the last ten minutes, and the first of the trouble.
    """

    before: float | None
    just_before: float | None


@dataclass(frozen=True, kw_only=True)
class Why:
    """The trouble of a group on a topic, as far as it is known.

    Attributes:
        is_troubled: whether its health or an open incident states that something is wrong.
        queue: the worst queue with its owner; None without a queue that is behind.
        since: when the trouble was first observed, by the oldest open incident.
        diagnosis: the newest diagnosis of an open incident.
        entries: events before, the newest first.
        members: members that joined or left before.
        rates: rates of production before.
        hint: the next step; empty where none is known.
        runbook: address of the runbook; empty without one.
    """

    is_troubled: bool
    queue: Mapping[str, Any] | None
    since: datetime | None
    diagnosis: Mapping[str, Any] | None
    entries: Sequence[Entry]
    members: Sequence[MemberChange]
    rates: Rates
    hint: str
    runbook: str


HEALTHY = Why(
    is_troubled=False,
    queue=None,
    since=None,
    diagnosis=None,
    entries=(),
    members=(),
    rates=Rates(before=None, just_before=None),
    hint="",
    runbook="",
)
"""A group with nothing known against it has these."""


class Subject(NamedTuple):
    """A group on a topic."""

    cluster: str
    consumer_group: str
    topic: str


def why_of_group(
    page: Page,
    row: Mapping[str, Any],
    queues: Sequence[Mapping[str, Any]],
    incidents: Iterable[Mapping[str, Any]],
) -> Why:
    """Return what is known of a group's trouble on a topic.

    Args:
        page: the page that shows it.
        row: the row of ``progress.groups``.
        queues: of `owned_queues`.
        incidents: open incidents about the group.
    """
    own = [it for it in incidents if it["row"].get("topic") in (None, row["topic"])]
    own.sort(key=lambda it: it["opened_at"])
    if not own and row["health"] not in TROUBLE:
        return HEALTHY
    kind = next((it["kind"] for it in own if it["kind"] in KINDS), (row["health"] or "").lower())
    linked = next((it["evidence"]["runbook"] for it in own if it["evidence"].get("runbook")), None)
    return _why(
        page,
        Subject(row["cluster"], row["consumer_group"], row["topic"]),
        queue=next((it for it in queues if it["lag"] is None or it["lag"] > 0), None),
        since=own[0]["opened_at"] if own else None,
        observed_at=row["observed_at"],
        diagnosis=newest_diagnosis(own),
        kind=kind,
        linked=linked,
    )


def why_of_incident(page: Page, incident: Mapping[str, Any]) -> Why:
    """Return what is known of the trouble that an incident is about.

    Args:
        page: the page that shows it.
        incident: with its evidence; one without a group on a topic has no trouble of a group.
    """
    evidence, cluster = incident["row"], incident["cluster"]
    group, topic = evidence.get("consumer_group"), evidence.get("topic")
    if not (group and topic) or topic.startswith(DLQ_PREFIX) or cluster not in page.rows.at:
        return HEALTHY
    worst = evidence.get("worst_broker"), evidence.get("worst_queue_id")
    queues = owned_queues(
        rows_of_group(page.rows, progress.QUEUES, cluster, group, topic),
        rows_of_group(page.rows, progress.ASSIGNMENTS, cluster, group, topic),
    )
    return _why(
        page,
        Subject(cluster, group, topic),
        queue=next((it for it in queues if (it["broker"], it["queue_id"]) == worst), None),
        since=incident["opened_at"],
        observed_at=incident["opened_at"],
        diagnosis=kept_diagnosis(incident.get("diagnosis")),
        kind=incident["kind"],
        linked=incident["evidence"].get("runbook"),
    )


def _why(
    page: Page,
    subject: Subject,
    *,
    queue: Mapping[str, Any] | None,
    since: datetime | None,
    observed_at: datetime,
    diagnosis: Mapping[str, Any] | None,
    kind: str,
    linked: str | None,
) -> Why:
    window = _window(page, since or observed_at)
    runbook = linked or f"runbooks/{kind.replace('_', '-')}.md"
    return Why(
        is_troubled=True,
        queue=queue and _with_reported_owner(queue, diagnosis),
        since=since,
        diagnosis=diagnosis,
        entries=_entries(page, subject, window)[:MOST_CHANGES],
        members=list(_member_changes(page, subject, window))[:MOST_CHANGES],
        rates=_rates(page, subject, window),
        hint=KINDS[kind].hint if kind in KINDS else "",
        runbook=address_of_runbook(page, runbook),
    )


def _with_reported_owner(
    queue: Mapping[str, Any], diagnosis: Mapping[str, Any] | None
) -> Mapping[str, Any]:
    """Return a queue without a known owner with those that members reported in a diagnosis."""
    place = queue["topic"], queue["broker"], queue["queue_id"]
    for item in (diagnosis or {}).get("messages") or ():
        if (item["topic"], item["broker"], item["queue_id"]) == place and not queue["owner"]:
            return {**queue, "owner": ", ".join(item["owners"] or ()) or None}
    return queue


def owned_queues(
    queues: Iterable[dict[str, Any]], assignments: Iterable[Mapping[str, Any]]
) -> list[dict[str, Any]]:
    """Return the queues of a group on a topic with their owners, the worst first.

    Args:
        queues: rows of ``progress.queues``.
        assignments: rows of ``progress.assignments`` of the same topic.
    """
    held = {(row["broker"], row["queue_id"]): row for row in assignments}
    owned = [_owned(row, held.get((row["broker"], row["queue_id"]))) for row in queues]
    return sorted(owned, key=_worst_first)


def _owned(queue: dict[str, Any], held: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return a queue with its owner: whom members named, or the client whose queue it is."""
    if held is None:
        return queue | {"owner": queue["client_id"], "owner_state": None, "expected": None}
    owner = ", ".join(held["owners"] or ()) or held["actual_client_id"]
    return queue | {
        "owner": owner,
        "owner_state": held["state"],
        "expected": held["expected_client_id"],
    }


def _worst_first(queue: Mapping[str, Any]) -> tuple[bool, bool, float, float]:
    """Return the place of a queue: what is wrong or unknown, then the longest delay."""
    is_owned = queue["owner_state"] in (AssignmentState.OK, None, AssignmentState.UNKNOWN)
    is_well = queue["condition"] in (Condition.OK, None) and is_owned
    return is_well, queue["lag"] is not None, -(queue["delay_ms"] or 0), -(queue["lag"] or 0)


def newest_diagnosis(incidents: Iterable[Mapping[str, Any]]) -> Mapping[str, Any] | None:
    """Return the newest diagnosis that incidents keep; None without one."""
    kept = [read for it in incidents if (read := kept_diagnosis(it.get("diagnosis")))]
    return max(kept, key=lambda it: it["diagnosed_at"], default=None)


def kept_diagnosis(diagnosis: Mapping[str, Any] | None) -> Mapping[str, Any] | None:
    """Return the diagnosis of an incident with instants and words; None without a readable one."""
    try:
        return with_words(asdict(read_diagnosis(diagnosis))) if diagnosis else None
    except msgspec.ValidationError:
        return None


def _window(page: Page, since: datetime) -> Window:
    end = max(since - BEFORE + MICROSECOND, min(since + AFTER, page.end))
    return Window(since - BEFORE, end + MICROSECOND)


def _entries(page: Page, subject: Subject, window: Window) -> list[Entry]:
    """Return events of the group on the topic, of the topic and of its brokers, and annotations."""
    events = event_rows(page.view, page.rows, window, cluster=subject.cluster).to_pylist()
    own = (
        it
        for it in events
        if it["consumer_group"] in (None, subject.consumer_group)
        and it["topic"] in (None, subject.topic)
    )
    notes = of_notes(page.view, subject._asdict())
    return within([*of_events(own), *notes], window)


def _member_changes(page: Page, subject: Subject, window: Window) -> Iterator[MemberChange]:
    """Yield changes of membership, the newest first; none where raw rows have been removed.

    A snapshot without a row of the group has no member of it. In a partial one, members of before
    may be connected to a broker that did not respond, so nobody counts as gone.
    """
    # A tick loads snapshots before their members: only the shown one and those before are whole.
    shown = page.rows.at[subject.cluster] + MICROSECOND
    window = Window(window.start, max(window.start, min(window.end, shown)))
    of_cluster = {"cluster": subject.cluster}
    of_group = of_cluster | {"consumer_group": subject.consumer_group}
    taken = page.view.rows_between(raw.SNAPSHOTS, window, of_cluster, ("source", "status"))
    is_whole = {
        it["observed_at"]: it["status"] == SnapshotStatus.COMPLETE
        for it in taken.to_pylist()
        if it["source"] in (None, SnapshotSource.REMOTE)
    }
    rows = page.view.rows_between(raw.CLIENTS, window, of_group, ("client_id", "version"))
    seen: dict[datetime, dict[str, str | None]] = {at: {} for at in is_whole}
    for it in rows.to_pylist():
        seen.setdefault(it["observed_at"], {})[it["client_id"]] = it["version"]
    instants = sorted(seen)
    for before, at in pairwise(instants):
        if not is_whole.get(at, True):
            seen[at] = seen[before] | seen[at]
    for before, at in reversed(list(pairwise(instants))):
        joined, left = seen[at].keys() - seen[before].keys(), seen[before].keys() - seen[at].keys()
        if joined or left:
            versions = {seen[at][it] for it in joined} - set(seen[before].values()) - {None}
            yield MemberChange(
                at=at,
                joined=tuple(sorted(joined)),
                left=tuple(sorted(left)),
                versions=tuple(sorted(filter(None, versions))),
            )


def _rates(page: Page, subject: Subject, window: Window) -> Rates:
    series = history_of(
        page.view,
        page.rows,
        window,
        *subject,
        ("produce_tps",),
        None,
    )
    values = list(zip(series.instants, series.last["produce_tps"], strict=True))
    border = window.start + BEFORE - JUST_BEFORE
    return Rates(
        before=_median(value for at, value in values if at < border),
        just_before=_median(value for at, value in values if at >= border),
    )


def _median(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return median(known) if known else None


@router.get("/runbook")
def runbook(page: ThePage, name: str) -> Response:
    """Show a runbook of the documentation, where this program runs with its documentation."""
    path = _runbooks().get(name)
    if path is None:
        raise ProblemError(404, f"no runbook {name!r}")
    return page.render("runbook.html", name=name, text=path.read_text(encoding="utf-8"))


def address_of_runbook(page: Page, runbook: str) -> str:
    """Return where a runbook opens; empty where it is neither an address nor a page here."""
    if runbook.startswith(("https://", "http://")):
        return runbook
    name = runbook.rpartition("/")[2]
    return page.url("/runbook", name=name) if name in _runbooks() else ""


def _runbooks() -> dict[str, Path]:
    """Return the pages by name: a name from outside chooses one of them, and no other file."""
    return {path.name: path for path in RUNBOOKS.glob("*.md")}
