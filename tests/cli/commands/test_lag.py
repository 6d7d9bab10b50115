"""`tidemark lag` as a person sees it: unknown is a dash, and a bound is shown as one."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from bench import standin
from tests.support.homes import run
from tidemark.cli.commands.lag import NO_GROUPS, ONLY_HIDDEN, SHOWN, _legend, _worth_showing
from tidemark.cli.output import duration, table_text
from tidemark.lab.large import Large
from tidemark.live.lag import group_rows
from tidemark.rocketmq.records import Broker, ConsumerOffset, Problem, QueueOffset, Snapshot
from tidemark.settings.home import Home

NOW = datetime(2026, 11, 19, 12, tzinfo=UTC)


def snapshot(*queues: tuple[int | None, int, datetime | None]) -> Snapshot:
    """One group on one topic: committed, max and newest store time of each queue."""
    taken = Snapshot(cluster="lab", source="remote", observed_at=NOW, status="COMPLETE")
    for queue_id, (committed, maximum, stored) in enumerate(queues):
        taken.queue_offsets.append(
            QueueOffset(
                broker="broker-a",
                topic="orders",
                queue_id=queue_id,
                min_offset=0,
                max_offset=maximum,
                newest_stored_at=stored,
            )
        )
        taken.consumer_offsets.append(
            ConsumerOffset(
                broker="broker-a",
                consumer_group="billing",
                topic="orders",
                queue_id=queue_id,
                client_id=None,
                consumer_offset=committed,
            )
        )
    return taken


def cells(taken: Snapshot) -> dict[str, str]:
    text = table_text(_worth_showing(group_rows(taken), True), SHOWN)
    _, row = (line for line in text.splitlines() if line.strip() and "─" not in line)
    return dict(zip(SHOWN, [cell for cell in row.split("  ") if cell.strip()], strict=True))


@pytest.mark.parametrize(
    ("queues", "lag", "delay"),
    [
        pytest.param([(10, 10, NOW)], "0", "0 ms", id="nothing left"),
        pytest.param([(9, 10, NOW - timedelta(seconds=90))], "1", "1 m 30 s", id="known"),
        pytest.param([(5, 10, NOW)], "5", "-", id="not known"),
        pytest.param([(5, 10, None)], "5", "-", id="the broker did not report"),
        pytest.param([(9, 10, NOW)], "1", "-", id="0 means that nothing is left"),
        pytest.param([(5, 10, NOW - timedelta(seconds=90))], "5", "≥ 1 m 30 s", id="older ones"),
        pytest.param([(5, 10, NOW), (10, 10, NOW)], "5", "-", id="at least 0 is no bound"),
        pytest.param(
            [(5, 10, NOW), (9, 10, NOW - timedelta(seconds=5))], "6", "≥ 5.0 s", id="a bound"
        ),
        pytest.param([(None, 10, NOW)], "-", "-", id="never committed"),
    ],
)
def test_lag_and_delay_as_shown(queues, lag, delay):
    shown = {name: cell.strip() for name, cell in cells(snapshot(*queues)).items()}
    assert (shown["lag"], shown["delay_ms"]) == (lag, delay)


@pytest.mark.parametrize(
    ("topic", "is_shown"),
    [("%RETRY%billing", False), ("%DLQ%billing", False), ("%LMQ%$sessions$alice", True)],
)
def test_a_topic_of_the_group_itself_is_shown_when_it_holds_something(topic, is_shown):
    taken = snapshot((10, 10, NOW))
    for row in (*taken.queue_offsets, *taken.consumer_offsets):
        row.topic = topic
    rows = group_rows(taken)
    shown = _worth_showing(rows, False)
    assert len(shown) == is_shown
    assert _legend(rows, shown) == ("" if is_shown else ONLY_HIDDEN)
    taken.consumer_offsets[0].consumer_offset = 9
    assert len(_worth_showing(group_rows(taken), False)) == 1


def test_the_lag_of_a_pop_group_is_a_bound():
    taken = snapshot((9, 10, NOW))
    taken.consumer_offsets[0].request_mode = "pop"
    assert cells(taken)["lag"].strip() == "≥ 1"


@pytest.mark.parametrize(
    ("pulled", "ready_ms"),
    [(None, None), (10, 0), (9, 90_000)],
    ids=["unknown", "all handed out", "the last one waits"],
)
def test_ready_delay_is_of_messages_not_handed_out(pulled, ready_ms):
    taken = snapshot((5, 10, NOW - timedelta(seconds=90)))
    taken.consumer_offsets[0].pull_offset = pulled
    (row,) = group_rows(taken)
    assert row["ready_delay_ms"] == ready_ms


def test_delays_of_a_row_are_marked_as_bounds():
    """The store time of the newest message is the latest that an older one can have."""
    names = ("delay_is_lower_bound", "ready_delay_is_lower_bound")
    marks = {}
    for committed in (5, 9, 10):
        taken = snapshot((committed, 10, NOW - timedelta(seconds=90)))
        taken.consumer_offsets[0].pull_offset = committed
        (row,) = group_rows(taken)
        marks[committed] = tuple(row[name] for name in names)
    assert marks == {5: (True, True), 9: (False, False), 10: (False, False)}
    (row,) = group_rows(snapshot((5, 10, NOW)))
    assert (row["delay_ms"], row["delay_is_lower_bound"]) == (None, None)


def with_problem(operation: str) -> dict[str, Any]:
    taken = snapshot((5, 10, NOW))
    taken.brokers = [
        Broker(broker="broker-a", broker_id=0, address="10.0.0.1:1"),
        Broker(broker="broker-b", broker_id=0, address="10.0.0.2:1"),
    ]
    taken.problems = [
        Problem(endpoint="10.0.0.2:1", operation=operation, code=None, message="timed out")
    ]
    taken.status = "PARTIAL"
    (row,) = group_rows(taken)
    names = ("lag", "queues", "queues_unknown", "complete", "online", "clients")
    return {name: row[name] for name in names}


def test_an_unreachable_broker_makes_groups_incomplete():
    assert with_problem("GET_ALL_CONSUMER_OFFSET") == {
        "lag": 5,
        "queues": None,
        "queues_unknown": None,
        "complete": False,
        "online": None,
        "clients": None,
    }


def test_nobody_known_online_where_one_of_many_questions_failed():
    taken = snapshot((5, 10, NOW))
    problem = Problem(
        endpoint="10.0.0.1:1",
        operation="GET_CONSUMER_CONNECTION_LIST other billing",
        code=None,
        message="denied",
    )
    taken.problems = [problem]
    (row,) = group_rows(taken)
    assert (row["online"], row["clients"], row["complete"]) == (None, None, True)
    taken.problems = [replace(problem, operation="GET_CONSUMER_CONNECTION_LIST other")]
    (row,) = group_rows(taken)
    assert (row["online"], row["clients"]) == (False, 0)


@pytest.mark.parametrize(
    ("milliseconds", "text"),
    [(850, "850 ms"), (12_300, "12.3 s"), (250_000, "4 m 10 s"), (7_500_000, "2 h 5 m")],
)
def test_durations(milliseconds, text):
    assert duration(milliseconds) == text


@pytest.mark.parametrize("milliseconds", [1, 65_525, 65_526, 99_999])
def test_a_delay_is_the_difference_of_whole_milliseconds(milliseconds):
    (row,) = group_rows(snapshot((9, 10, NOW - timedelta(milliseconds=milliseconds))))
    assert row["delay_ms"] == milliseconds


@pytest.mark.slow
def test_a_cluster_without_groups_is_not_an_empty_table_alone(tmp_path):
    size = Large(topics=1, queues=1, groups=0, topics_per_group=0)
    with standin.serve(size, brokers=1) as namesrv:
        done = run(Home.of(tmp_path), ["lag", "--namesrv", namesrv], timeout=60)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines()[-1] == NO_GROUPS
