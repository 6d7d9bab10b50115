"""``progress.events``: each kind on two observations, with the cause that the evidence gives."""

import pytest

from spark.progress.events import BEYOND_END, events
from tests.support.plan_readers import reader_with
from tests.support.table_rows import frame, minute, snapshot_id
from tidemark.lake.tables import progress, raw
from tidemark.planning.observation_steps import EVERY, Step

pytestmark = pytest.mark.spark

UP = {"a1": -10, "a2": -10}
"""Members and the minute each was started at."""


def queue(commit, maximum=1000, minimum=0, store="broker"):
    return {
        "consumer_offset": commit,
        "max_offset": maximum,
        "min_offset": minimum,
        "lost": None if commit is None else max(0, minimum - commit),
        "offset_store": store,
    }


def case(
    before,
    now,
    *expected,
    members=(UP, UP),
    online=(True, True),
    client=None,
    broker="a",
    topic="orders",
):
    """A queue at two observations, who was online then, and ``(kind, from, to, messages, cause)``.

    Broker ``b`` was restarted between them, rows of ``c`` are quarantined, and the slave of ``g``
    became its master. Brokers delivered a
    message a second to each group, all of which ask for every message but the member ``tags``.
    """
    return before, now, list(expected), members, online, client, broker, topic


LITE = "%LMQ%$sessions$alice"
OFFLINE = {"members": ({}, {}), "online": (False, False)}

CASES = {
    "goes on": case(queue(10), queue(90)),
    "stands": case(queue(10), queue(10)),
    "rewound by reset": case(
        queue(900), queue(100, minimum=50), ("REWOUND", 900, 100, 800, "reset by an operator")
    ),
    "rewound, and part of it expired": case(
        queue(900),
        queue(100, minimum=500),
        ("REWOUND", 900, 100, 400, "reset by an operator"),
        ("LOST", 100, 500, 400, None),
    ),
    "rewound with nobody online": case(
        queue(900), queue(100), ("REWOUND", 900, 100, 800, "reset by an operator"), **OFFLINE
    ),
    "rewound, members not known": case(
        queue(9), queue(4), ("REWOUND", 9, 4, 5, None), members=({}, {}), online=(None, True)
    ),
    "rewound by other processes": case(
        queue(9),
        queue(4),
        ("REWOUND", 9, 4, 5, "client restarted"),
        members=(UP, {"a1": 0, "a3": 0}),
    ),
    "rewound by the same process started again": case(
        queue(9),
        queue(4),
        ("REWOUND", 9, 4, 5, "client restarted"),
        members=(UP, {"a1": -10, "a2": 0.5}),
    ),
    "rewound by one member more": case(
        queue(9), queue(4), ("REWOUND", 9, 4, 5, "rebalance"), members=(UP, UP | {"a3": None})
    ),
    "rewound in a restart of the broker": case(
        queue(9),
        queue(4),
        ("REWOUND", 9, 4, 5, "broker restarted before it persisted"),
        broker="b",
    ),
    "rewound under another master": case(
        queue(9), queue(4), ("REWOUND", 9, 4, 5, "another replica became master"), broker="g"
    ),
    "what the new master never had": case(
        queue(90, 100),
        queue(90, 95),
        ("RECREATED", 100, 95, 10, "another replica became master"),
        broker="g",
    ),
    "commits that the new master never had": case(
        queue(10),
        queue(None),
        ("DISAPPEARED", 10, None, None, "another replica became master"),
        broker="g",
    ),
    "rewound in a file": case(
        queue(9, store="client_file"),
        queue(4, store="client_file"),
        ("REWOUND", 9, 4, 5, "local file deleted or edited"),
        client="a1",
    ),
    "a broadcasting member begins at 0": case(
        queue(900, store="broker_broadcast"),
        queue(0, store="broker_broadcast"),
        members=(UP, UP | {"a3": None}),
    ),
    "the slowest broadcasting member left": case(
        queue(10, store="broker_broadcast"), queue(720, store="broker_broadcast"), **OFFLINE
    ),
    "back from ahead": case(queue(900, 30), queue(0, 40), ("REWOUND", 900, 0, 40, BEYOND_END)),
    "skipped": case(
        queue(10), queue(110), ("SKIPPED", 10, 110, 100, "reset by an operator"), **OFFLINE
    ),
    "skipped while online": case(
        queue(10), queue(720), ("SKIPPED", 10, 720, 710, "reset by an operator")
    ),
    "skipped or filtered": case(queue(10), queue(720), members=({"tags": 0}, {"tags": 0})),
    "not far from what was delivered": case(queue(10), queue(709)),
    "committed late": case(queue(10), queue(109), **OFFLINE),
    "went past what expired": case(queue(10), queue(510, minimum=450), **OFFLINE),
    "consumed": case(queue(10), queue(999), members=({}, UP), online=(False, True)),
    "lost": case(queue(10), queue(10, minimum=60), ("LOST", 10, 60, 50, None)),
    "lost with nobody online": case(
        queue(10), queue(10, minimum=60), ("LOST", 10, 60, 50, "nobody online"), **OFFLINE
    ),
    "still lost": case(queue(10, minimum=20), queue(10, minimum=60)),
    "recreated": case(
        queue(900, 1000),
        queue(900, 7),
        ("AHEAD_OF_BROKER", 7, 900, 893, "topic recreated"),
        ("RECREATED", 1000, 7, 100, None),
    ),
    "still ahead": case(queue(900, 7), queue(900, 8)),
    "ahead": case(queue(7, 10), queue(30, 20), ("AHEAD_OF_BROKER", 20, 30, 10, None)),
    "disappeared": case(queue(10), None, ("DISAPPEARED", 10, None, None, None)),
    "disappeared, group online": case(
        queue(10), queue(None), ("DISAPPEARED", 10, None, None, None)
    ),
    "a session that ended": case(queue(10), None, topic=LITE),
    "a session that began": case(None, queue(1), topic=LITE),
    "a session rewound": case(
        queue(9), queue(4), ("REWOUND", 9, 4, 5, "reset by an operator"), topic=LITE
    ),
    "never there": case(queue(None), None),
    "rows of the topic quarantined": case(queue(10), None, broker="c"),
    "rows of any topic quarantined": case(queue(10), None, broker="e"),
    "rows of another topic quarantined": case(
        queue(10), None, ("DISAPPEARED", 10, None, None, None), broker="f"
    ),
    "a client without a request": case(queue(10, store="client_file"), None, client="a1"),
    "first commit": case(queue(None), queue(5), ("FIRST_COMMIT", None, 5, None, None)),
    "first commit of a new group": case(None, queue(5), ("FIRST_COMMIT", None, 5, None, None)),
    "first seen now": case(None, queue(5), broker="c"),
    "a client with a request now": case(None, queue(10, store="client_file"), client="a1"),
}

LACKING = {"c": ("orders",), "e": (EVERY,), "f": ("refunds",)}

STEPS = [
    Step(
        snapshot_id=snapshot_id(1),
        observed_at=minute(1),
        cluster="lab",
        broker=name,
        previous_snapshot_id=snapshot_id(0),
        previous_at=minute(0),
        lacking=LACKING.get(name, ()),
        down=name == "d",
    )
    for name in "abcdefg"
]


@pytest.fixture(scope="module")
def happened(spark):
    queues, groups, clients, stats = [], [], [], []
    subscription = {"topic": "orders", "expression_type": "TAG", "tags": []}
    for name, (before, now, _, members, online, client, broker, topic) in CASES.items():
        pair = {"consumer_group": name, "topic": topic}
        one = pair | {"broker": broker, "queue_id": 3, "client_id": client}
        counted = {"stats_name": "GROUP_GET_NUMS", "stats_window": "minute", "tps": 0.5}
        stats += [
            pair | counted | {"at": 1, "broker": "a", "broker_id": literal} for literal in (0, 1)
        ]
        for at, owners in ((0, before), (1, now)):
            groups.append(pair | {"at": at, "online": online[at]})
            clients += [
                {
                    "at": at,
                    "consumer_group": name,
                    "client_id": member,
                    "started_at": None if start is None else minute(start),
                    "subscriptions": [
                        subscription | {"expression": "A" if member == "tags" else "*"}
                    ],
                }
                for member, start in members[at].items()
            ]
            if owners is not None:
                queues.append(one | {"at": at} | owners)
        if before and now:
            queues[-1]["previous_consumer_offset"] = before["consumer_offset"]
            queues[-1]["previous_max_offset"] = before["max_offset"]
    brokers = [
        {"at": 1, "broker": name, "broker_id": 0, "booted_at": minute(0.5 if name == "b" else -60)}
        for name in "abc"
    ]
    roles = {0: {0: "one", 1: "two"}, 1: {0: "two", 1: "one"}}
    brokers += [
        {"at": at, "broker": "g", "broker_id": broker_id, "booted_at": minute(-60)}
        | {"address": address}
        for at, addresses in roles.items()
        for broker_id, address in addresses.items()
    ]
    result = events(
        frame(spark, progress.QUEUES, queues),
        frame(spark, progress.GROUPS, groups),
        frame(spark, raw.CLIENTS, clients),
        frame(spark, raw.BROKERS, brokers),
        frame(spark, raw.BROKER_STATS, stats),
        reader_with(spark).steps(STEPS),
    )
    assert result.columns == progress.EVENTS.column_names
    # Collected instants are without their zone, which is the session's: UTC.
    before, after = (minute(at).replace(tzinfo=None) for at in (0, 1))
    rows = [row.asDict() for row in result.collect()]
    assert {(row["previous_at"], row["observed_at"]) for row in rows} == {(before, after)}
    return rows


@pytest.mark.parametrize("name", CASES)
def test_a_transition_is_one_event_with_its_numbers(happened, name):
    _, _, expected, *_, client, broker, topic = CASES[name]
    mine = [row for row in happened if row["consumer_group"] == name]
    columns = ("kind", "from_offset", "to_offset", "messages", "likely_cause")
    key = lambda event: event[0]  # noqa: E731
    assert sorted((tuple(row[literal] for literal in columns) for row in mine), key=key) == sorted(
        expected, key=key
    )
    for row in mine:
        assert (row["snapshot_id"], row["cluster"]) == (snapshot_id(1), "lab")
        assert (row["broker"], row["topic"], row["queue_id"]) == (broker, topic, 3)
        assert row["client_id"] == client


def test_a_broker_that_no_longer_responds(happened):
    (down,) = [row for row in happened if row["kind"] == "BROKER_DOWN"]
    assert (down["broker"], down["snapshot_id"]) == ("d", snapshot_id(1))
    nothing = {"topic", "queue_id", "consumer_group", "client_id", "from_offset", "to_offset"}
    assert {down[name] for name in nothing} == {None}
