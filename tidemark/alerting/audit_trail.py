"""Audit trail: what people did, when, on what and why.

A decision is recorded where it is kept: silences and annotations with who made and who ended them,
incidents with all actions on them, decisions on quarantined rows in their table. Actions that leave
nothing else, and accesses that the board refused, are in `tidemark.alerting.recorded_actions`. Here
all of them become one list.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import datetime
from itertools import groupby
from typing import Any

import pyarrow as pa
from pyiceberg.expressions import IsNull

from tidemark.alerting.annotations import Annotation, kept_annotations
from tidemark.alerting.delivery.silences import Silence, silences
from tidemark.alerting.incidents.actions import action_on
from tidemark.alerting.incidents.incident import Incident, IncidentAction
from tidemark.alerting.recorded_actions import Action, Refusals, recorded, refused
from tidemark.lake.catalog import Lake
from tidemark.lake.clocks import Window
from tidemark.lake.schema import (
    BIGINT,
    STRING,
    TIMESTAMP,
    Column,
    Table,
    any_of,
    not_before,
)
from tidemark.lake.tables import raw
from tidemark.lake.tables.alerting import INCIDENTS
from tidemark.lake.tables.quality import DECISIONS
from tidemark.lake.typed_rows import typed_rows
from tidemark.model.incidents import ActionKind
from tidemark.planning.quarantine_decisions import Decision

ACTIONS = Table(
    name="alerting.actions",
    comment="One row per action of a person, put together from where decisions are kept.",
    columns=(
        Column("action_id", STRING, "id of the action"),
        Column("at", TIMESTAMP, "when, by the clock"),
        Column(
            "author",
            STRING,
            "the person, or the name of the login of a program; of a refused access also the "
            "address of a client that is no known person",
        ),
        Column("action", STRING, " | ".join(ActionKind)),
        Column(
            "target",
            STRING,
            "id of the incident, silence, annotation or quarantined row; NULL = it has none",
        ),
        Column(
            "subject",
            STRING,
            "what it is about: rule and subject, globs by column, a table and the key of its row, "
            "or the method and part of the board that was refused; NULL = everything",
        ),
        Column("rows", BIGINT, "quarantined rows that were decided on at once; NULL = no such"),
        Column(
            "requests",
            BIGINT,
            "refused requests in this hour, of which `at` is the first; NULL = no refused access",
        ),
        raw.CLUSTER,
        raw.CONSUMER_GROUP,
        raw.TOPIC,
        Column(
            "reason",
            STRING,
            "why, or the note, in the words of the person, or the status of a refusal; NULL = not "
            "given",
        ),
    ),
    key=("action_id",),
    instant="at",
)
"""The columns of the trail, which is no table of its own."""


@dataclass(frozen=True, kw_only=True)
class Sources:
    """The decisions of people, where they are kept.

    Attributes:
        silences: all that are kept.
        annotations: all that are kept, removed ones too.
        incidents: those with an action, of any state.
        decisions: all decisions on quarantined rows, undone and replaced ones too.
        recorded: the actions that are kept nowhere else.
        refused: refused accesses.
    """

    silences: Sequence[Silence] = ()
    annotations: Sequence[Annotation] = ()
    incidents: Sequence[Incident] = ()
    decisions: Sequence[Decision] = ()
    recorded: Sequence[Action] = ()
    refused: Sequence[Refusals] = ()


def sources_of(lake: Lake, window: Window) -> Sources:
    """Read what people did in a window, and more.

    Raises:
        UnreadableSilencesError, UnreadableAnnotationsError, DamagedError: a part cannot be read.
    """
    state = lake.shared.state
    # Every action on an incident writes its row.
    written = any_of(not_before("written_at", window.start), IsNull("written_at"))  # pyright: ignore
    return Sources(
        silences=silences(state),
        annotations=kept_annotations(state),
        incidents=typed_rows(lake.read(INCIDENTS, written), Incident),
        decisions=[
            Decision(**row)
            for row in lake.read(
                DECISIONS,
                not_before("decided_at", window.start),
                columns=tuple(it.name for it in fields(Decision)),
            ).to_pylist()
        ],
        recorded=recorded(state),
        refused=refused(state),
    )


def trail(sources: Sources, window: Window) -> pa.Table:
    """Return the actions of a window as `ACTIONS` declares them, the newest first."""
    made = [
        *(action for silence in sources.silences for action in _of_silence(silence)),
        *(action for note in sources.annotations for action in _of_annotation(note)),
        *(action for incident in sources.incidents for action in _of_incident(incident)),
        *_of_decisions(sources.decisions),
        *sources.recorded,
        *(refusals.action for refusals in sources.refused),
    ]
    made = [action for action in made if window.start <= action.at < window.end]
    made.sort(key=lambda action: (action.at, action.action_id), reverse=True)
    names = ACTIONS.column_names
    return ACTIONS.arrow_table([{name: getattr(it, name) for name in names} for it in made])


def _of_silence(silence: Silence) -> Iterable[Action]:
    about: dict[str, Any] = {"target": silence.silence_id, "subject": _globs(silence.match)}
    yield Action(
        action=ActionKind.SILENCED,
        at=silence.created_at,
        author=silence.author,
        reason=silence.comment or None,
        **about,
        **_columns(silence.match),
    )
    if silence.ended_by is not None:
        yield Action(
            action=ActionKind.UNSILENCED,
            at=silence.until,
            author=silence.ended_by,
            reason=silence.end_reason or None,
            **about,
            **_columns(silence.match),
        )


def _of_annotation(note: Annotation) -> Iterable[Action]:
    about: dict[str, Any] = {
        "target": note.annotation_id,
        "subject": _globs(note.match),
        "reason": note.text,
    }
    columns = _columns(note.match)
    yield Action(
        action=ActionKind.ANNOTATED, at=note.created_at, author=note.author, **about, **columns
    )
    if note.removed_by is not None and note.removed_at is not None:
        yield Action(
            action=ActionKind.ANNOTATION_REMOVED,
            at=note.removed_at,
            author=note.removed_by,
            **about,
            **columns,
        )


def _of_incident(incident: Incident) -> Iterable[Action]:
    made = {(action.action, action.at): action for action in incident.actions}
    # Earlier versions kept the last action of each kind alone.
    for action, at, author, reason in (
        (
            ActionKind.ACKNOWLEDGED,
            incident.acknowledged_at,
            incident.acknowledged_by,
            incident.acknowledge_reason,
        ),
        (
            ActionKind.RESOLVED,
            incident.resolved_at,
            incident.resolved_by,
            incident.resolve_reason,
        ),
    ):
        if at is not None and author is not None:
            known = IncidentAction(action=action, at=at, author=author, reason=reason)
            made.setdefault((action, at), known)
    return [action_on(incident, action) for action in made.values()]


def _of_decisions(decisions: Iterable[Decision]) -> Iterable[Action]:
    """Yield one action for all rows of a table that were decided on at once."""

    def at_once(one: Decision) -> tuple[datetime, str, str, str, str]:
        return one.decided_at, one.decision, one.author, one.table, one.comment or ""

    for _, rows in groupby(sorted(decisions, key=at_once), at_once):
        first, *others = rows
        columns: dict[str, Any] = {"cluster": first.columns.get("cluster")}
        if not others:
            columns |= {name: first.columns.get(name) for name in ("consumer_group", "topic")}
        yield Action(
            action=ActionKind(first.decision),
            at=first.decided_at,
            author=first.author,
            reason=first.comment,
            target=first.row_id,
            subject=f"{first.table}: {first.key_text}" if not others else first.table,
            rows=1 + len(others),
            **columns,
        )


def _globs(match: Mapping[str, Iterable[str]]) -> str | None:
    return ", ".join(f"{name}={'|'.join(globs)}" for name, globs in match.items()) or None


def _columns(match: Mapping[str, Sequence[str]]) -> dict[str, Any]:
    """Return the columns that globs name exactly one value of, so that a page can link to it."""
    return {
        name: match[name][0]
        for name in ("cluster", "consumer_group", "topic")
        if len(match.get(name, ())) == 1 and not set("*?[") & set(match[name][0])
    }
