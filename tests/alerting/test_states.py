"""Names of transitions: one parser and one writer, and the stored text stays as it is."""

import msgspec
import pytest

from tests.support.notified_incidents import NOON
from tidemark.alerting.incidents.incident import Transition
from tidemark.lake.typed_rows import converted, plain_rows
from tidemark.model.incidents import TransitionKind, TransitionName


@pytest.mark.parametrize(
    ("stored", "kind", "number"),
    [
        ("FIRING", TransitionKind.FIRING, 1),
        ("RESOLVED_2", TransitionKind.RESOLVED, 2),
        ("ACKNOWLEDGED_13", TransitionKind.ACKNOWLEDGED, 13),
    ],
)
def test_a_name_is_read_and_written_alike(stored: str, kind: TransitionKind, number: int):
    name = TransitionName(stored)
    assert (name.kind, name.number) == (kind, number)
    assert TransitionName.of(kind, number) == stored
    (row,) = plain_rows([Transition(name, NOON)])
    assert row == {"transition": stored, "at": NOON}
    assert type(row["transition"]) is str


@pytest.mark.parametrize("stored", ["", "PENDING", "FIRING_", "FIRING_x", "firing"])
def test_another_text_is_no_name(stored: str):
    with pytest.raises(ValueError):
        TransitionName(stored)


def test_a_row_without_a_known_kind_is_refused():
    with pytest.raises(msgspec.ValidationError):
        converted({"transition": "OPENED", "at": NOON}, Transition)
