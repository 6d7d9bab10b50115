"""When messages were stored: each rule on observations that can be checked by eye.

Then all at once against the contract's paragraph in plain Python, and against a made-up truth.

Tempting simplifications these tests break: interpolating over a fall of ``max_offset`` (messages of
the deleted topic), from the first observation of a plateau instead of its last, and taking what a
later observation knows.
"""

import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields, replace
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from spark.progress.queues import RawFrames, queues
from spark.progress.timeline import thinned, timeline
from tests.support.table_rows import frame, minute, minutes, raw_frames
from tidemark.lake.clocks import Window
from tidemark.lake.tables import progress

pytestmark = pytest.mark.spark

ALL = minutes(-10_000, 10_000)


class Seen(NamedTuple):
    """One observation of a queue: minute, max_offset, store time of the newest as a minute.

    A deep snapshot asks for the store time of the consumer's message, if the case has one.
    """

    at: float
    maximum: int | None
    stored: float | None = None
    is_deep: bool = True


@dataclass(frozen=True, kw_only=True)
class Case:
    """Observations of a queue, and where a consumer stands at each of them."""

    seen: Sequence[Seen]
    committed: int | None
    pulled: int | None = None
    minimum: int = 0
    by_broker: float | None = None
    topic: str = ""


def raw_of(cases: Iterable[Case], spark: SparkSession):
    """All cases as raw rows, each on a topic of its own."""
    written, read = [], []
    for case in cases:
        queue = {"topic": case.topic, "queue_id": 0}
        for seen in case.seen:
            written.append(
                queue
                | {
                    "at": seen.at,
                    "min_offset": min(case.minimum, seen.maximum or 0),
                    "max_offset": seen.maximum,
                    "newest_stored_at": None if seen.stored is None else minute(seen.stored),
                }
            )
            read.append(
                queue
                | {
                    "at": seen.at,
                    "consumer_group": "billing",
                    "consumer_offset": case.committed,
                    "pull_offset": case.pulled,
                    "first_unconsumed_at": None
                    if case.by_broker is None or not seen.is_deep
                    else minute(case.by_broker),
                    "offset_store": "broker",
                }
            )
    return raw_frames(spark, queue_offsets=written, consumer_offsets=read)


def rows_of(frame: DataFrame) -> dict[tuple[Any, Any], dict[str, Any]]:
    """Rows by topic and instant, whole."""
    rows = [
        {
            name: value.astimezone(UTC) if isinstance(value, datetime) else value
            for name, value in row.asDict().items()
        }
        for row in frame.collect()
    ]
    return {(row["topic"], row["observed_at"]): row for row in rows}


def on_topics(cases: Iterable[Case]) -> list[Case]:
    return [replace(case, topic=f"topic-{number}") for number, case in enumerate(cases)]


GROWS = (Seen(at=0, maximum=100), Seen(at=10, maximum=200, stored=10))

RULES = {
    # message 149 is the 50th of 100 between minutes 0 and 10
    "between two observations": (Case(seen=GROWS, committed=149), (5, "interpolated", 10)),
    "the store time of the newest ends the step": (
        Case(seen=(Seen(at=0, maximum=100), Seen(at=10, maximum=200, stored=4)), committed=149),
        (2, "interpolated", 4),
    ),
    "the newest of a step is exact": (
        Case(
            seen=(
                Seen(at=0, maximum=100),
                Seen(at=10, maximum=200, stored=9),
                Seen(at=12, maximum=300, stored=12),
            ),
            committed=199,
        ),
        (9, "exact", 0),
    ),
    "a plateau counts from its last observation": (
        Case(
            seen=(
                Seen(at=0, maximum=100),
                Seen(at=6, maximum=100),
                Seen(at=10, maximum=200, stored=10),
            ),
            committed=149,
        ),
        (8, "interpolated", 4),
    ),
    "and to the first of the next": (
        Case(
            seen=(
                Seen(at=0, maximum=100),
                Seen(at=10, maximum=200, stored=10),
                Seen(at=15, maximum=200, stored=10),
                Seen(at=20, maximum=201, stored=20),
            ),
            committed=149,
        ),
        (5, "interpolated", 10),
    ),
    "a clock ahead is cut": (
        Case(
            seen=(
                Seen(at=0, maximum=100),
                Seen(at=10, maximum=200, stored=11),
                Seen(at=12, maximum=200, stored=11),
            ),
            committed=149,
        ),
        (5, "interpolated", 10),
    ),
    "a store time before the step is none": (
        Case(
            seen=(
                Seen(at=4, maximum=100),
                Seen(at=10, maximum=200, stored=3),
                Seen(at=12, maximum=300, stored=12),
            ),
            committed=199,
        ),
        (10, "interpolated", 6),
    ),
    "no store time": (
        Case(
            seen=(
                Seen(at=4, maximum=100),
                Seen(at=10, maximum=200),
                Seen(at=12, maximum=300, stored=12),
            ),
            committed=199,
        ),
        (10, "interpolated", 6),
    ),
    "before history": (
        Case(
            seen=(Seen(at=0, maximum=100, stored=-30), Seen(at=10, maximum=120, stored=10)),
            committed=50,
        ),
        (-30, "at_least", None),
    ),
    "before history, without a store time": (
        Case(seen=(Seen(at=0, maximum=100), Seen(at=10, maximum=120, stored=10)), committed=50),
        (0, "at_least", None),
    ),
    "the newest when history began": (
        Case(
            seen=(Seen(at=0, maximum=100, stored=-30), Seen(at=10, maximum=120, stored=10)),
            committed=99,
        ),
        (-30, "exact", 0),
    ),
    "at least nothing is nothing": (
        Case(seen=(Seen(at=0, maximum=100),), committed=50),
        (None, None, None),
    ),
    "at least nothing by a clock ahead": (
        Case(seen=(Seen(at=0, maximum=100, stored=3),), committed=50),
        (None, None, None),
    ),
    # message 29 is the 30th of 60 between minutes 6 and 10
    "just after a fall": (
        Case(
            seen=(
                Seen(at=0, maximum=10),
                Seen(at=6, maximum=1000),
                Seen(at=10, maximum=60, stored=10),
            ),
            committed=29,
        ),
        (8, "interpolated", 4),
    ),
    "a fall cuts what was before": (
        Case(
            seen=(
                Seen(at=0, maximum=10),
                Seen(at=1, maximum=20),
                Seen(at=6, maximum=1000),
                Seen(at=10, maximum=10),
                Seen(at=12, maximum=20, stored=12),
            ),
            committed=14,
        ),
        (11, "interpolated", 2),
    ),
    "a gap in an observation is none": (
        Case(
            seen=(
                Seen(at=0, maximum=100),
                Seen(at=5, maximum=None),
                Seen(at=10, maximum=200, stored=10),
            ),
            committed=149,
        ),
        (5, "interpolated", 10),
    ),
    # message 150 is the first that can still be read
    "lost messages": (Case(seen=GROWS, committed=20, minimum=149), (5, "interpolated", 10)),
    "read": (Case(seen=GROWS, committed=149, by_broker=3), (3, "exact", 0)),
    "read by a clock ahead": (
        Case(seen=(*GROWS, Seen(at=11, maximum=200, stored=10)), committed=198, by_broker=10.5),
        (10.5, "exact", 0),
    ),
    "ahead of the broker": (Case(seen=GROWS, committed=250), (None, None, None)),
    "never committed": (Case(seen=GROWS, committed=None), (None, None, None)),
}


@pytest.fixture(scope="module")
def answers(spark):
    """The computed row of the last observation in the case of each rule."""
    cases = on_topics(case for case, _ in RULES.values())
    rows = rows_of(queues(raw_of(cases, spark), ALL))
    return {
        name: rows[case.topic, minute(case.seen[-1].at)]
        for name, case in zip(RULES, cases, strict=True)
    }


@pytest.mark.parametrize("name", RULES)
def test_when_the_first_unconsumed_message_was_stored(answers, name):
    case, (at, source, error) = RULES[name]
    row = answers[name]
    assert row["consumer_at"] == (None if at is None else minute(at))
    assert row["delay_source"] == source
    assert row["delay_error_ms"] == (None if error is None else error * 60_000)
    age = None if at is None else (case.seen[-1].at - at) * 60_000
    assert row["delay_ms"] == age


def test_spans_follow_from_the_instants(spark):
    """100 messages a 10 minutes; 150 committed, 170 handed out: 1-based, the 51st and the 71st."""
    case = Case(
        seen=(Seen(at=0, maximum=100), Seen(at=10, maximum=200, stored=10)),
        committed=149,
        pulled=169,
        topic="t",
    )
    done = Case(
        seen=(Seen(at=0, maximum=100), Seen(at=10, maximum=200, stored=10)),
        committed=149,
        pulled=200,
        topic="all-out",
    )
    rows = rows_of(queues(raw_of([case, done], spark), ALL))
    names = ("lag_span_ms", "inflight_span_ms", "available_span_ms")
    row = rows["t", minute(10)]
    assert (row["consumer_at"], row["pull_at"], row["newest_at"]) == (
        minute(5),
        minute(7),
        minute(10),
    )
    assert [row[name] for name in names] == [300_000, 120_000, 180_000]
    assert [rows["all-out", minute(10)][name] for name in names] == [300_000, 300_000, 0]
    assert rows["all-out", minute(10)]["pull_at"] is None


def test_ready_delay_dates_the_first_message_not_handed_out(spark):
    """The 71st of 100 messages in 10 minutes is 3 minutes old; the one worked on is older."""
    cases = {
        "waits": (Case(seen=GROWS, committed=149, pulled=169), 180_000),
        "all out": (Case(seen=GROWS, committed=149, pulled=200), 0),
        "unknown": (Case(seen=GROWS, committed=149), None),
        "not committed": (Case(seen=GROWS, committed=None, pulled=169), 180_000),
        "before the history": (
            Case(seen=(Seen(at=10, maximum=200),), committed=149, pulled=169),
            None,
        ),
        "ahead of the broker": (Case(seen=GROWS, committed=149, pulled=201), None),
    }
    raw = raw_of((replace(case, topic=name) for name, (case, _) in cases.items()), spark)
    rows = rows_of(queues(raw, ALL))
    delays = {name: rows[name, minute(10)]["ready_delay_ms"] for name in cases}
    assert delays == {name: expected for name, (_, expected) in cases.items()}


def test_a_ready_delay_from_before_the_history_is_a_bound(spark):
    """Dated by the history, asked of the broker, all handed out, or known only from below."""
    old = (Seen(at=0, maximum=100, stored=-5), Seen(at=10, maximum=200, stored=10))
    cases = {
        "interpolated": (Case(seen=GROWS, committed=149, pulled=169), False),
        "before the history": (Case(seen=old, committed=40, pulled=50), True),
        "asked": (Case(seen=old, committed=40, pulled=40, by_broker=-9), False),
        "all out": (Case(seen=old, committed=40, pulled=200), False),
        "unknown": (Case(seen=old, committed=40), None),
    }
    raw = raw_of((replace(case, topic=name) for name, (case, _) in cases.items()), spark)
    rows = rows_of(queues(raw, ALL))
    marks = {name: rows[name, minute(10)]["ready_delay_is_lower_bound"] for name in cases}
    assert marks == {name: expected for name, (_, expected) in cases.items()}


def test_one_store_time_serves_both_offsets(spark):
    case = Case(seen=GROWS, committed=149, pulled=149, by_broker=3, topic="t")
    row = rows_of(queues(raw_of([case], spark), ALL))["t", minute(10)]
    assert row["consumer_at"] == row["pull_at"] == minute(3)
    assert (row["inflight_span_ms"], row["available_span_ms"]) == (0, 7 * 60_000)


def test_the_timeline_has_a_row_per_step(spark):
    """A plateau is one row, however long; what it ended with stands in the next step's row."""
    case = Case(
        seen=(
            Seen(at=0, maximum=100, stored=-1),
            Seen(at=1, maximum=100, stored=-1),
            Seen(at=2, maximum=None),
            Seen(at=3, maximum=100, stored=-1),
            Seen(at=4, maximum=160, stored=4),
            Seen(at=5, maximum=20, stored=5),
            Seen(at=6, maximum=20, stored=5),
        ),
        committed=None,
        topic="t",
    )
    rows = rows_of(timeline(raw_of([case], spark).queue_offsets, minutes(0, 60)))
    names = ("max_offset", "newest_stored_at", "previous_max_offset", "previous_at")
    assert {at: tuple(row[name] for name in names) for (_, at), row in rows.items()} == {
        minute(0): (100, minute(-1), None, None),
        minute(4): (160, minute(4), 100, minute(3)),
        minute(5): (20, minute(5), 160, minute(4)),
    }


def test_thin_history_has_one_step_per_five_minutes(spark):
    steps = [
        {"max_offset": 10, "observed_at": minute(1)},
        {"max_offset": 20, "observed_at": minute(3), "previous_max_offset": 10, "previous_at": 2},
        {"max_offset": 5, "observed_at": minute(4), "previous_max_offset": 20, "previous_at": 3},
        {"max_offset": 9, "observed_at": minute(4.5), "previous_max_offset": 5, "previous_at": 4},
        {"max_offset": 12, "observed_at": minute(6), "previous_max_offset": 9, "previous_at": 5},
        # Deleted, created again and written past its former end, all within five minutes.
        {"max_offset": 7, "observed_at": minute(11), "previous_max_offset": 12, "previous_at": 6},
        {"max_offset": 15, "observed_at": minute(12), "previous_max_offset": 7, "previous_at": 11},
        {"max_offset": 18, "observed_at": minute(13), "previous_max_offset": 15, "previous_at": 12},
    ]
    rows = [
        {"topic": "t", "queue_id": 0}
        | step
        | {"previous_at": minute(step["previous_at"]) if "previous_at" in step else None}
        for step in steps
    ]
    once = thinned(frame(spark, progress.TIMELINE, rows))
    names = ("max_offset", "previous_max_offset", "previous_at")
    expected = {
        minute(3): (20, None, None),
        minute(4.5): (9, 20, minute(3)),
        minute(6): (12, 9, minute(5)),
        minute(11): (7, 12, minute(6)),
        minute(13): (18, 7, minute(11)),
    }
    for made in (once, thinned(once)):
        mapping = {at: tuple(row[name] for name in names) for (_, at), row in rows_of(made).items()}
        assert mapping == expected


# Random histories


def stored(history: Sequence[Seen], x: int) -> tuple[float, str, float | None] | None:
    """The contract's paragraph, word for word: stored, source and error of message x in minutes.

    Args:
        history: observations up to the row's own.
        x: an offset below the last `maximum`.
    """
    known = [(seen.maximum, seen) for seen in history if seen.maximum is not None]
    falls = [i for i in range(1, len(known)) if known[i][0] < known[i - 1][0]]
    run = known[falls[-1] :] if falls else known
    left = [(maximum, seen.at) for maximum, seen in run if maximum <= x]
    m0, t0 = left[-1] if left else (None, None)
    if not left and falls:
        m0, t0 = 0, known[falls[-1] - 1][1].at
    m1, (t1, _, s1, _) = next((maximum, seen) for maximum, seen in run if maximum > x)
    if s1 is None or (t0 is not None and s1 < t0):
        is_by_broker, s1 = False, t1
    else:
        is_by_broker, s1 = True, min(s1, t1)
    if is_by_broker and x == m1 - 1 and (t0 is None or s1 < history[-1].at):
        return s1, "exact", 0
    if t0 is None or m0 is None:
        return None if history[-1].at <= s1 else (s1, "at_least", None)
    return t0 + (s1 - t0) * (x - m0 + 1) / (m1 - m0), "interpolated", s1 - t0


def a_history(rng: random.Random) -> Case:
    """Few observations of anything: plateaus, falls, gaps, and clocks that lie."""
    seen, at, maximum = [], 0, rng.choice((0, 0, rng.randrange(30)))
    for _ in range(rng.randint(1, 9)):
        at += rng.choice((1, 1, 2, 7))
        maximum = rng.choice((maximum, maximum, rng.randrange(60), maximum + rng.randrange(1, 40)))
        by_broker = rng.choice((None, at - 0.5, at, at + 1, at - 3, at - 20))
        seen.append(Seen(at=at, maximum=None if rng.random() < 0.1 else maximum, stored=by_broker))
    return Case(
        seen=seen,
        committed=rng.choice((None, 0, *[rng.randrange(60)] * 5)),
        pulled=rng.choice((None, *[rng.randrange(60)] * 3)),
        minimum=rng.choice((0, 0, rng.randrange(30))),
    )


@settings(max_examples=2, deadline=None, phases=[Phase.generate])
@given(seed=st.integers(0, 2**32))
def test_any_history_and_split_follow_the_contract(spark, seed):
    """All at once, and from the middle on with the timeline of before: the same rows.

    Of some queues more than the last observation from before the middle is read, with gaps.
    """
    rng = random.Random(seed)
    cases = on_topics(a_history(rng) for _ in range(300))
    raw = raw_of(cases, spark)
    whole = rows_of(queues(raw, ALL))
    for case in cases:
        for number, seen in enumerate(case.seen):
            _check(whole[case.topic, minute(seen.at)], case.seen[: number + 1])

    middle = minutes(8, 10_000)
    before = timeline(raw.queue_offsets, Window(ALL.start, middle.start))
    late = raw_of((replace(case, seen=_read(rng, case, _last(case, 8))) for case in cases), spark)
    split = rows_of(queues(late, middle, timeline=before))
    names = ("consumer_at", "pull_at", "delay_ms", "delay_source", "delay_error_ms")
    expected = {key: row for key, row in whole.items() if key[1] in middle}
    assert split.keys() == expected.keys()
    for key, row in expected.items():
        assert [split[key][name] for name in names] == [row[name] for name in names], (seed, key)


def _last(case: Case, at: float) -> float:
    """When the queue was last seen before a minute."""
    known = [seen.at for seen in case.seen if seen.maximum is not None and seen.at < at]
    return max(known, default=at)


def _since(case: Case, at: float) -> list[Seen]:
    return [seen for seen in case.seen if seen.at >= at]


def _read(rng: random.Random, case: Case, since: float) -> list[Seen]:
    share = rng.choice((0, 0.5))
    return [seen for seen in case.seen if seen.at >= since or rng.random() < share]


def _check(row: dict[str, Any], history: Sequence[Seen]) -> None:
    now, committed = row["observed_at"], row["consumer_offset"]
    entry = stored(history, max(committed, row["min_offset"])) if row["readable_lag"] else None
    at, source, error = entry or (None, None, None)
    assert _close(row["consumer_at"], at), (history, row)
    if row["readable_lag"] == 0 and row["lag"] >= 0:
        assert (row["delay_ms"], row["delay_source"], row["delay_error_ms"]) == (0, "exact", 0)
    elif at is None or (source != "interpolated" and now == row["consumer_at"]):
        assert (row["delay_ms"], row["delay_source"], row["delay_error_ms"]) == (None, None, None)
    else:
        assert row["delay_source"] == source
        age = (now - row["consumer_at"]) / timedelta(milliseconds=1)
        assert row["delay_ms"] == pytest.approx(age, abs=1)
        assert row["delay_error_ms"] == (None if error is None else pytest.approx(error * 60_000))
    pulled = row["pull_offset"]
    pulled = stored(history, pulled) if (row["available"] or 0) > 0 else None
    assert _close(row["pull_at"], pulled[0] if pulled else None), (history, row)
    waits = None if row["pull_at"] is None else (now - row["pull_at"]) / timedelta(milliseconds=1)
    ready = 0 if row["available"] == 0 else waits
    assert row["ready_delay_ms"] == (None if ready is None else pytest.approx(ready, abs=1))
    is_bound = pulled is not None and pulled[1] == "at_least"
    assert row["ready_delay_is_lower_bound"] is (None if ready is None else is_bound)
    for name in ("lag_span_ms", "inflight_span_ms", "available_span_ms"):
        assert row[name] is None or row[name] >= 0


def _close(instant: datetime | None, at: float | None) -> bool:
    if instant is None or at is None:
        return instant is None and at is None
    return abs(instant - minute(at)) <= timedelta(microseconds=2)


# A made-up truth


def a_truth(rng: random.Random) -> tuple[Case, list[float]]:
    """Messages with the minute each was stored in, seen every minute; the consumer hangs."""
    rates = [rng.choice((0, 0, 1, 3, 20)) for _ in range(40)]
    times = sorted(at + rng.random() for at, rate in enumerate(rates) for _ in range(rate))
    times = [int(time * 60_000) / 60_000 for time in times]
    seen = []
    for at in range(rng.randrange(20), 41):
        stored_by_now = [time for time in times if time <= at]
        newest = stored_by_now[-1] if stored_by_now and rng.random() < 0.8 else None
        seen.append(Seen(at=at, maximum=len(stored_by_now), stored=newest))
    return Case(seen=seen, committed=rng.randrange(len(times) + 1)), times


@pytest.mark.parametrize("thin", [False, True], ids=["full history", "thinned"])
def test_a_delay_is_within_its_error_and_grows(spark, thin):
    rng = random.Random(4711)
    truths = [a_truth(rng) for _ in range(150)]
    cases = on_topics(case for case, _ in truths)
    raw = raw_of(cases, spark)
    if thin:
        history = thinned(timeline(raw.queue_offsets, minutes(-1, 30)))
        late = raw_of((replace(case, seen=_since(case, 29)) for case in cases), spark)
        rows = rows_of(queues(late, minutes(30, 60), timeline=history))
    else:
        rows = rows_of(queues(raw, ALL))
    kinds = set()
    for case, (_, times) in zip(cases, truths, strict=True):
        before = 0
        for seen in case.seen:
            row = rows.get((case.topic, minute(seen.at)))
            if row is None or not row["readable_lag"] or row["delay_ms"] is None:
                continue
            truth = (seen.at - times[case.committed or 0]) * 60_000
            kinds.add(row["delay_source"])
            if row["delay_source"] == "at_least":
                assert row["delay_ms"] <= truth + 1
            else:
                assert abs(row["delay_ms"] - truth) <= row["delay_error_ms"] + 1
            assert row["delay_ms"] >= before
            before = row["delay_ms"]
    assert kinds == {"exact", "interpolated", "at_least"}


# Learned store times stay


def by_ticks(
    raw: RawFrames, spark: SparkSession, instants: Sequence[float], reach: float = 10_000
) -> dict[tuple[Any, Any], dict[str, Any]]:
    """Compute each snapshot by itself, with what a tick reads of the time before it."""
    ticks: dict[tuple[Any, Any], dict[str, Any]] = {}
    earlier = None
    for before, at in zip([instants[0] - 1, *instants], instants, strict=False):
        near = {
            field.name: getattr(raw, field.name).where(
                F.col("observed_at").isin(minute(before), minute(at))
            )
            for field in fields(raw)
        }
        history = timeline(raw.queue_offsets, minutes(at - reach, at))
        computed = queues(
            RawFrames(**near), minutes(at, at + 0.001), timeline=history, earlier=earlier
        )
        stored_rows = computed.toArrow()
        ticks |= rows_of(computed_again := spark.createDataFrame(stored_rows))
        earlier = computed_again
    return ticks


STUCK = Case(
    seen=(
        Seen(at=0, maximum=400, stored=-0.1, is_deep=False),
        Seen(at=1, maximum=500, stored=1),
        Seen(at=2, maximum=600, stored=2, is_deep=False),
        Seen(at=3, maximum=600, stored=2, is_deep=False),
        Seen(at=4, maximum=700, stored=4),
        Seen(at=5, maximum=800, stored=5, is_deep=False),
    ),
    committed=0,
    pulled=0,
    by_broker=-1,
    topic="stuck",
)
"""A queue without progress; deep snapshots request the store time of its first message."""


def test_a_store_time_once_reported_stays(spark):
    whole = rows_of(queues(raw_of([STUCK], spark), ALL))
    rows = [whole["stuck", minute(seen.at)] for seen in STUCK.seen]
    bound = (6_000, "at_least", None)
    exact = [(60_000 * (at + 1), "exact", 0) for at in range(1, 6)]
    names = ("delay_ms", "delay_source", "delay_error_ms")
    assert [tuple(row[name] for name in names) for row in rows] == [bound, *exact]
    ready = [(row["ready_delay_ms"], row["ready_delay_is_lower_bound"]) for row in rows]
    assert ready == [(6_000, True), *((delay, False) for delay, _, _ in exact)]
    ticks = by_ticks(raw_of([STUCK], spark), spark, [seen.at for seen in STUCK.seen])
    assert ticks == whole


@pytest.mark.parametrize(
    ("after", "source"),
    [({"committed": 1}, "at_least"), ({"minimum": 5}, "at_least"), ({"seen": "fell"}, None)],
    ids=["committed", "expired", "recreated"],
)
def test_a_store_time_is_of_one_message(spark, after, source):
    """Another first message has its own; so has one of a topic that was created again."""
    first, last = (
        Seen(at=0, maximum=500, stored=-3),
        Seen(at=2, maximum=600, stored=2, is_deep=False),
    )
    if after.pop("seen", None):
        last = Seen(at=2, maximum=100, stored=None, is_deep=False)
    stands = Case(seen=(first,), committed=0, by_broker=-9, topic="t")
    then = replace(stands, seen=(last,), **after)
    before, now = raw_of([stands], spark), raw_of([then], spark)
    raw = RawFrames(
        **{
            field.name: getattr(before, field.name).unionByName(getattr(now, field.name))
            for field in fields(before)
        }
    )
    earlier = spark.createDataFrame(queues(before, minutes(0, 1)).toArrow())
    history = timeline(raw.queue_offsets, minutes(0, 1))
    for queue in (
        queues(raw, ALL),
        queues(raw, minutes(1, 3), timeline=history, earlier=earlier),
    ):
        row = rows_of(queue)["t", minute(2)]
        assert row["delay_source"] == (source or "interpolated")
        assert row["consumer_at"] >= minute(-3)


INSTANTS = (20, 23, 24, 28, 33, 40)


@pytest.mark.parametrize("reach", [10_000, 6], ids=["all history", "short history"])
def test_the_delay_of_a_standing_commit_never_falls(spark, reach):
    """Whatever deep snapshots learn between, and whatever the history forgets.

    Only where a reported store time replaces an interpolated one it may fall, within the error that
    the delay had.
    """
    rng = random.Random(815)
    cases, truth = [], {}
    for number in range(120):
        case, times = a_truth(rng)
        by_minute = {seen.at: seen for seen in case.seen}
        seen = []
        for at in INSTANTS:
            maximum = sum(time <= at for time in times)
            stored_at = by_minute[at].stored if at in by_minute else None
            seen.append(Seen(at=at, maximum=maximum, stored=stored_at, is_deep=rng.random() < 0.3))
        committed = case.committed or 0
        reported = times[committed] if committed < seen[-1].maximum else None
        topic, pulled = f"topic-{number}", rng.choice((None, committed, committed + 1))
        cases.append(
            Case(seen=seen, committed=committed, pulled=pulled, by_broker=reported, topic=topic)
        )
        truth[topic] = reported
    raw = raw_of(cases, spark)
    ticks = by_ticks(raw, spark, INSTANTS, reach)
    if reach > 1_000:
        whole = rows_of(queues(raw, ALL))
        assert ticks == {key: whole[key] for key in ticks}
    fell = 0
    for case in cases:
        before: dict[str, Any] = {"delay_ms": 0, "delay_source": "at_least", "ready_delay_ms": 0}
        for at in INSTANTS:
            row = ticks[case.topic, minute(at)]
            if not row["readable_lag"] or row["delay_ms"] is None:
                assert before["delay_ms"] == 0, "what was known is not forgotten"
                continue
            lost = before["delay_ms"] - row["delay_ms"]
            if lost > 0:
                fell += 1
                assert (before["delay_source"], row["delay_source"]) == ("interpolated", "exact")
                assert lost <= before["delay_error_ms"]
            ranks = ("at_least", "interpolated", "exact")
            assert ranks.index(row["delay_source"]) >= ranks.index(before["delay_source"])
            truth_ms = (at - (truth[case.topic] or 0)) * 60_000
            assert row["delay_ms"] <= truth_ms + 1 or row["delay_source"] == "interpolated"
            before = row
    assert fell < len(cases) / 10


def test_the_timeline_is_by_our_clock(spark):
    rows = [
        {"at": 0, "topic": "orders", "queue_id": 0, "max_offset": 9, "newest_stored_at": minute(4)}
    ]
    clock = {"at": 0, "broker_id": 0, "clock_skew_ms": 300_000}
    raw = raw_frames(spark, queue_offsets=rows, brokers=[clock])
    (row,) = timeline(raw.queue_offsets, ALL, brokers=raw.brokers).collect()
    assert row["newest_stored_at"].timestamp() == minute(-1).timestamp()
    assert row["source"] == "remote"
