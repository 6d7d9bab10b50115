"""`tidemark why` states no more than what a snapshot shows."""

from datetime import UTC, datetime

from tidemark.cli.commands.why import lines
from tidemark.live.diagnosis import Diagnosis


def test_without_known_messages_it_does_not_claim_that_all_are_consumed() -> None:
    """A broker may not have responded, and offsets of a broadcasting group are unknown."""
    diagnosis = Diagnosis(
        cluster="lab",
        consumer_group="mailer",
        topic=None,
        diagnosed_at=datetime(2026, 11, 19, 12, tzinfo=UTC),
        clients=(),
        clients_left_out=0,
        messages=(),
        queues_left_out=0,
        problems=("broker-b: no response",),
    )
    shown = list(lines(diagnosis, frames=False))
    assert "  no unconsumed message is known" in shown
    assert "unknown: broker-b: no response" in shown
