"""Silences, quiet hours and inhibition mute notifications."""

import dataclasses
import json

import pytest
from msgspec.structs import replace

from tests.support.notified_incidents import FIRING, NOON, incident, minute
from tidemark.alerting.delivery.silences import (
    KEPT,
    Silence,
    SilenceError,
    mute_reason,
    mutes,
    silence,
    silences,
    unsilence,
)
from tidemark.alerting.incidents.incident import Incident
from tidemark.alerting.rules.files import load_rules
from tidemark.host.postgresql import PostgresqlState


def test_a_silence_mutes_what_it_matches_until_it_ends(lake):
    match = {"consumer_group": ("b*",), "topic": ("orders",)}
    made = silence(lake.shared, match, minute(60), "eve", "why", now=NOON)
    assert silences(lake.shared.state) == [made]
    other = incident(("FIRING", 0), group="audit")

    def why(one: Incident, number: float) -> str | None:
        return mute_reason(one, mutes(silences(lake.shared.state), ()), minute(number))

    assert why(FIRING, 1) == "silenced by eve until 2026-11-19T13:00:00+00:00"
    assert why(FIRING, 60) is None
    assert why(other, 1) is None


def test_who_ends_a_silence_and_why_is_kept(lake):
    made = silence(lake.shared, {"topic": ("o*",)}, minute(60), "eve", "upgrade", now=NOON)
    ended = unsilence(lake.shared, made.silence_id, "bob", "done early", minute(20))
    assert ended == dataclasses.replace(
        made, until=minute(20), ended_by="bob", end_reason="done early"
    )
    assert silences(lake.shared.state) == [ended]
    assert ended.state(minute(20)) == "ENDED"
    assert mute_reason(FIRING, mutes([ended], ()), minute(21)) is None
    for other in (made.silence_id, "none"):
        with pytest.raises(SilenceError, match="no silence"):
            unsilence(lake.shared, other, "bob", now=minute(30))
    silence(lake.shared, {"topic": ("o*",)}, minute(99), "eve", "why", now=minute(30))
    assert ended in silences(lake.shared.state)
    late = minute(20) + KEPT
    silence(lake.shared, {"topic": ("o*",)}, late + KEPT, "eve", "why", now=late)
    assert ended not in silences(lake.shared.state)


def test_a_silence_of_an_older_version_is_read(lake):
    made = silence(lake.shared, {"topic": ("o*",)}, minute(60), "eve", "why", now=NOON)
    file = lake.home.path / "silences.json"
    (row,) = json.loads(file.read_text())
    file.write_text(json.dumps([{k: v for k, v in row.items() if not k.startswith("end")}]))
    assert silences(lake.shared.state) == [made]


def test_a_silence_needs_a_match_a_reason_and_a_future_end(lake):
    with pytest.raises(SilenceError, match="name what to silence"):
        silence(lake.shared, {}, minute(60), "eve", "why", now=NOON)
    with pytest.raises(SilenceError, match="why it is silenced is wanted"):
        silence(lake.shared, {"rule": ("lag",)}, minute(60), "eve", " ", now=NOON)
    with pytest.raises(SilenceError, match="has ended already"):
        silence(lake.shared, {"rule": ("lag",)}, minute(-1), "eve", "why", now=NOON)
    lake.home.make()
    (lake.home.path / "silences.json").write_text("{")
    with pytest.raises(SilenceError, match="cannot be read"):
        silences(lake.shared.state)


def test_an_instant_that_a_person_wrote_without_a_zone_is_utc(lake):
    """Nothing was notified any more: it cannot be compared with the present."""
    made = silence(lake.shared, {"rule": ("lag",)}, minute(60), "eve", "why", now=NOON)
    file = lake.home.path / "silences.json"
    file.write_text(file.read_text().replace("+00:00", ""))
    assert silences(lake.shared.state) == [made]


def test_a_silence_has_texts_that_can_be_shown(lake):
    """Bytes of a command line that are no UTF-8 arrive as halves of characters."""
    for wrong in ({"author": "\udcff"}, {"comment": "\udcff"}, {"match": {"topic": ("\udcff",)}}):
        given = {"match": {"topic": ("t",)}, "author": "eve", "comment": "why"} | wrong
        with pytest.raises(SilenceError, match="is no text"):
            silence(lake.shared, until=minute(60), now=NOON, **given)
    assert silences(lake.shared.state) == []


def test_a_silence_by_a_missing_column_does_not_match():
    down = replace(FIRING, evidence=json.dumps({"row": {"cluster": "lab", "broker": "b"}}))
    about = Silence(
        silence_id="x",
        match={"topic": ("o*",)},
        until=minute(60),
        author="eve",
        comment="",
        created_at=NOON,
    )
    assert not about.covers(down, NOON)
    assert dataclasses.replace(about, match={"cluster": ("l?b",), "rule": ("lag",)}).covers(
        down, NOON
    )
    assert dataclasses.replace(about, match={"broker": ("b",)}).covers(down, NOON)
    assert not dataclasses.replace(about, match={"broker": ("b",)}).covers(FIRING, NOON)


@pytest.mark.parametrize(
    ("hours", "is_muted"),
    [
        ('{from: "11:00", to: "13:00"}', True),
        ('{from: "12:30", to: "13:00"}', False),
        ('{from: "22:00", to: "12:01"}', True),
        ('{from: "13:00", to: "12:00"}', False),
        ('{from: "20:55", to: "21:05", zone: Asia/Tokyo}', True),
        ('{from: "12:55", to: "13:05", zone: Europe/Berlin}', True),
    ],
)
def test_quiet_hours_mute_in_their_own_time_zone(tmp_path, hours: str, is_muted: bool):
    file = tmp_path / "rules.yaml"
    file.write_text(f"rules:\n  - {{name: lag, kind: lag, threshold: 1, quiet_hours: {hours}}}\n")
    rules = load_rules(file)
    expected = "in quiet hours" if is_muted else None
    assert mute_reason(FIRING, mutes([], rules), NOON) == expected


def test_an_inhibited_incident_is_muted():
    assert mute_reason(replace(FIRING, suppressed_by="abc"), mutes([], ()), NOON) == (
        "inhibited by incident abc"
    )


def test_silences_out_of_reach_are_nothing_to_delete():
    """The same line was printed as of a damaged file, whose remedy is to delete it."""
    away = PostgresqlState("postgresql+psycopg2://u@127.0.0.1:1/x", "PostgreSQL")
    with pytest.raises(SilenceError, match="shared state cannot be used: PostgreSQL") as refused:
        silences(away)
    assert "delete" not in str(refused.value)
