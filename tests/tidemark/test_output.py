"""Tables as a person reads them on any terminal."""

import pytest
from rich.console import Console

from tidemark.commands.lag import SHOWN
from tidemark.output import table, table_text

ROW = {
    "consumer_group": "billing-of-the-northern-region",
    "topic": "orders-and-refunds-of-all-regions",
    "lag": 123_456_789,
    "delay_ms": "> 12 h 59 m",
    "queues": 1024,
    "queues_unknown": 0,
    "clients": 16,
    "message_model": "CLUSTERING",
}


def drawn(width):
    console = Console(width=width)
    with console.capture() as captured:
        console.print(table([ROW], SHOWN, "", width))
    return captured.get()


@pytest.mark.parametrize("width", [70, 80, 100, 120, 160, 250])
def test_on_any_terminal_numbers_are_whole_and_what_is_left_out_is_named(width):
    text = drawn(width)
    assert "…" not in text, "names go on in a next line"
    assert "123,456,789" in text and "> 12 h 59 m" in text
    headings, *_ = (line for line in text.splitlines() if "group" in line)
    left_out = text.partition("no room for ")[2].replace("\n", " ")
    for name in ("unknown", "inflight", "queues", "clients", "model"):
        assert (f" {name}" in headings) != (name in left_out), name
    assert max(map(len, text.splitlines())) <= width


def test_into_a_pipe_nothing_is_left_out():
    text = table_text([ROW], SHOWN)
    assert all(str(ROW[name]) in text for name in ("consumer_group", "topic", "message_model"))
    assert "no room" not in text
