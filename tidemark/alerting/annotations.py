"""Annotations: notes of people and of deploy pipelines on the time axis of the board."""

import secrets
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta

import msgspec

from tidemark.host.leases import ANNOTATIONS
from tidemark.host.shared import Shared
from tidemark.host.state import State, decoded
from tidemark.settings.fields import fits

COLUMNS = ("cluster", "consumer_group", "topic")
"""Columns that an annotation can match, by globs."""

KEPT = timedelta(days=90)
"""Time for which an annotation is kept, that of ``progress.*`` by default."""

MOST_KEPT = 2000
"""Annotations that are kept: the newest, as all are in one small text."""

LONGEST_TEXT = 500
MOST_GLOBS = 100
LONGEST_GLOB = 255

AHEAD = timedelta(days=1)
"""Longest time by which an annotation may lie in the future."""

LEASE_SECONDS = 10.0
"""Longest wait for another person's change, which takes milliseconds."""

_NAME = "annotations.json"


class AnnotationError(ValueError):
    """An annotation is not valid, or does not exist."""


class UnreadableAnnotationsError(Exception):
    """Annotations cannot be read; one line."""


@dataclass(frozen=True, kw_only=True)
class Annotation:
    """A note on an instant.

    Attributes:
        annotation_id: its id.
        at: the instant, UTC.
        text: the note.
        author: the person, or the name of the login of a program.
        match: column (`COLUMNS`) to globs, of which one must match; empty for everything.
        created_at: when it was made, UTC.
        removed_at: when it was removed, UTC; None = it is shown.
        removed_by: the person who removed it.
    """

    annotation_id: str
    at: datetime
    text: str
    author: str
    created_at: datetime
    match: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    removed_at: datetime | None = None
    removed_by: str | None = None

    def is_about(self, subject: Mapping[str, str]) -> bool:
        """Return whether it is about a subject, given by some of `COLUMNS`."""
        return fits(self.match, subject)


def annotations(state: State) -> list[Annotation]:
    """Return the annotations that are shown, the newest first.

    Raises:
        UnreadableAnnotationsError: they cannot be read.
    """
    return [note for note in kept_annotations(state) if note.removed_at is None]


def kept_annotations(state: State) -> list[Annotation]:
    """Return all annotations that are kept, removed ones too, the newest first.

    Raises:
        UnreadableAnnotationsError: they cannot be read.
    """
    notes = decoded(state, _NAME, list[Annotation], UnreadableAnnotationsError)
    return sorted(notes, key=lambda note: (note.at, note.annotation_id), reverse=True)


def annotate(
    shared: Shared,
    text: str,
    author: str,
    at: datetime | None = None,
    match: Mapping[str, tuple[str, ...]] | None = None,
    now: datetime | None = None,
    most: int = MOST_KEPT,
) -> Annotation:
    """Add an annotation, and remove those that are older than `KEPT`.

    Args:
        shared: the shared state, which keeps annotations.
        text: the note.
        author: who makes it.
        at: the instant; None = now.
        match: column (`COLUMNS`) to globs; None for everything.
        now: the present, None = by the clock.
        most: how many are kept.

    Raises:
        AnnotationError: a part of it is not valid.
        UnreadableAnnotationsError: the others cannot be read.
        LeaseError: another process keeps changing them, or leases cannot be had.
    """
    now = now or datetime.now(UTC)
    at, match = at or now, match or {}
    text = " ".join(text.split())
    if mistake := _mistake(text, author, at, match, now):
        raise AnnotationError(mistake)
    made = Annotation(
        annotation_id=secrets.token_hex(4),
        at=at,
        text=text,
        author=author,
        created_at=now,
        match=match,
    )
    with shared.leases.acquire(ANNOTATIONS, LEASE_SECONDS):
        kept = [note for note in kept_annotations(shared.state) if note.at > now - KEPT]
        # Removed ones must not take the place of those that are shown.
        kept.sort(key=lambda note: note.removed_at is not None)
        _write(shared.state, [made, *kept[: most - 1]])
    return made


def remove(shared: Shared, annotation_id: str, author: str, now: datetime | None = None) -> None:
    """Remove an annotation, which is kept for the audit trail and not shown any more.

    Args:
        shared: the shared state, which keeps annotations.
        annotation_id: its id.
        author: who removes it.
        now: the present, None = by the clock.

    Raises:
        AnnotationError: none has that id.
        UnreadableAnnotationsError: they cannot be read.
        LeaseError: another process keeps changing them, or leases cannot be had.
    """
    with shared.leases.acquire(ANNOTATIONS, LEASE_SECONDS):
        by_id = {note.annotation_id: note for note in kept_annotations(shared.state)}
        note = by_id.get(annotation_id)
        if note is None or note.removed_at is not None:
            raise AnnotationError(f"no annotation {annotation_id!r}")
        removed = replace(note, removed_at=now or datetime.now(UTC), removed_by=author)
        _write(shared.state, (by_id | {annotation_id: removed}).values())


def _mistake(
    text: str, author: str, at: datetime, match: Mapping[str, tuple[str, ...]], now: datetime
) -> str:
    """Return the first mistake of an annotation in one line; empty without one."""
    globs = [glob for given in match.values() for glob in given]
    try:
        "".join((text, author, *globs)).encode()
    except UnicodeEncodeError as error:
        return f"it holds half of a character, which no page can show: {error.reason}"
    if not text:
        return "text: what happened is wanted, in words"
    if len(text) > LONGEST_TEXT:
        return f"text: at most {LONGEST_TEXT} characters are wanted, not {len(text):,}"
    if unknown := sorted(match.keys() - set(COLUMNS)):
        return f"match: {', '.join(unknown)}: unknown, an annotation matches {', '.join(COLUMNS)}"
    if len(globs) > MOST_GLOBS or any(len(glob) > LONGEST_GLOB for glob in globs):
        return f"match: at most {MOST_GLOBS} globs of at most {LONGEST_GLOB} characters are wanted"
    if not now - KEPT < at <= now + AHEAD:
        return f"at: an instant of the last {KEPT.days} days is wanted, not {at.isoformat()}"
    return ""


def _write(state: State, notes: Iterable[Annotation]) -> None:
    state.write(_NAME, msgspec.json.encode(list(notes)).decode())
