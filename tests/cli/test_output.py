"""Tables as a person reads them on any terminal."""

import json
from datetime import UTC, datetime

import pytest
from rich.console import Console

from tidemark.cli.commands.lag import SHOWN
from tidemark.cli.output import printable, table, table_text, to_json
from tidemark.cli.snapshot_command import problem_lines
from tidemark.rocketmq.records import Problem, Snapshot

ROW = {
    "consumer_group": "billing-of-the-northern-region",
    "topic": "orders-and-refunds-of-all-regions",
    "lag": 123_456_789,
    "delay_ms": "≥ 12 h 59 m",
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
def test_narrow_terminals_keep_numbers_and_name_omissions(width):
    text = drawn(width)
    assert "…" not in text, "names go on in a next line"
    assert "123,456,789" in text and "≥ 12 h 59 m" in text
    headings, *_ = (line for line in text.splitlines() if "group" in line)
    left_out = text.partition("no room for ")[2].replace("\n", " ")
    for name in ("unknown", "inflight", "queues", "clients", "model"):
        assert (f" {name}" in headings) != (name in left_out), name
    assert max(map(len, text.splitlines())) <= width


def test_into_a_pipe_nothing_is_left_out():
    text = table_text([ROW], SHOWN)
    assert all(str(ROW[name]) in text for name in ("consumer_group", "topic", "message_model"))
    assert "no room" not in text


HOSTILE = {
    "an escape sequence": "\x1b[31mred\x1b[0m",
    "a C1 control sequence": "\x9b31mred",
    "a carriage return": "paid\rfaked",
    "a right-to-left override": "abc\u202etxt.exe",
    "an isolate": "\u2067abc\u2069",
    "an invisible character": "bil\u200bling",
    "a new line": "a\nb",
}


@pytest.mark.parametrize("name", HOSTILE.values(), ids=HOSTILE)
def test_no_name_controls_the_terminal(name):
    """Names of groups and topics come from strangers; a terminal would obey them."""
    rows = [{"consumer_group": name, "text": f"{name}!"}]
    text = table_text(rows, ("consumer_group", "text"), title=name)
    assert all(char.isprintable() for char in text.replace("\n", "")), repr(text)
    assert printable(name).isprintable() and printable(printable(name)) == printable(name)


@pytest.mark.parametrize("name", HOSTILE.values(), ids=HOSTILE)
def test_json_escapes_what_controls_the_terminal(name):
    value = {name: [name, {"x": name}]}
    text = to_json(value)
    assert text.isprintable()
    assert json.loads(text) == value


@pytest.mark.parametrize(
    "text", ["orders", "Bestellungen für heute", "订单-消费组", "a😀b", "[bold]"]
)
def test_printable_text_stays_as_it_is(text):
    assert printable(text) == text
    assert text in table_text([{"topic": text}], ("topic",), title=text)
    assert json.loads(to_json([text])) == [text] and text in to_json([text])


def test_a_problem_of_a_broker_controls_no_terminal():
    """The remark of a response is the broker's own text."""
    taken = Snapshot(cluster="lab", source="remote", observed_at=datetime(2026, 11, 19, tzinfo=UTC))
    taken.problems = [
        Problem(
            endpoint="10.0.0.1:10911",
            operation="GET_BROKER_CONFIG",
            code=1,
            message="no\x1b]0;gotcha\x07",
        )
    ]
    assert all(line.isprintable() for line in problem_lines(taken))


def test_what_is_no_number_is_unknown():
    text = table_text([{"tps": float("nan")}, {"tps": 1.5}, {"tps": float("inf")}], ["tps"])
    assert [line.strip() for line in text.splitlines()[-3:]] == ["-", "1.5", "-"]
