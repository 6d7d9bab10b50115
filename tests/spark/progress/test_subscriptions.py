"""``progress.subscriptions``: differences between members that count, and others."""

import pytest

from spark.progress.subscriptions import subscriptions
from tests.support.table_rows import frame, minutes
from tidemark.lake.tables.raw import CLIENTS

pytestmark = pytest.mark.spark


def subscribes(topic, expression="*", kind="TAG", tags=()):
    return {
        "topic": topic,
        "expression_type": kind,
        "expression": expression,
        "tags": list(tags),
    }


def member(client_id, *subscriptions, **other):
    row = {
        "at": 0,
        "client_id": client_id,
        "message_model": "CLUSTERING",
        "allocation_strategy": "AVG",
        "subscriptions": list(subscriptions),
        "subscriptions_source": "client",
    }
    return row | other


ORDERS = subscribes("orders")
GROUPS = {
    "one member": ([member("a", ORDERS)], True, []),
    "the same": ([member("a", ORDERS), member("b", ORDERS)], True, []),
    "the order of tags": (
        [member("a", subscribes("orders", "A || B")), member("b", subscribes("orders", " B||A "))],
        True,
        [],
    ),
    "no tags are all tags": (
        [
            member("a", subscribes("orders", "*")),
            member("b", subscribes("orders", None)),
            member("c", subscribes("orders", " ", None)),
        ],
        True,
        [],
    ),
    "tags without their text": (
        [
            member("a", subscribes("orders", None, tags=["A", "B"])),
            member("b", subscribes("orders", "B||A")),
        ],
        True,
        [],
    ),
    "retry topics": (
        [member("a", ORDERS, subscribes("%RETRY%retry topics")), member("b", ORDERS)],
        True,
        [],
    ),
    "tags": (
        [member("a", subscribes("orders", "A")), member("b", subscribes("orders", "A||B"))],
        False,
        ["EXPRESSION"],
    ),
    "topics": ([member("a", ORDERS), member("b", ORDERS, subscribes("bills"))], False, ["TOPICS"]),
    "topics and tags": (
        [member("a", ORDERS), member("b", subscribes("orders", "A"), subscribes("bills"))],
        False,
        ["TOPICS", "EXPRESSION"],
    ),
    "the type of the same text": (
        [member("a", subscribes("orders", "a")), member("b", subscribes("orders", "a", "SQL92"))],
        False,
        ["EXPRESSION_TYPE"],
    ),
    "SQL": (
        [
            member("a", subscribes("orders", "x>1", "SQL92")),
            member("b", subscribes("orders", "x>2", "SQL92")),
        ],
        False,
        ["EXPRESSION"],
    ),
    "the model": (
        [member("a", ORDERS), member("b", ORDERS, message_model="BROADCASTING")],
        False,
        ["MESSAGE_MODEL"],
    ),
    "the strategy": (
        [member("a", ORDERS), member("b", ORDERS, allocation_strategy="CONSISTENT_HASH")],
        False,
        ["ALLOCATION_STRATEGY"],
    ),
    "a strategy that is not known": (
        [member("a", ORDERS), member("b", ORDERS, allocation_strategy=None)],
        True,
        [],
    ),
    "one did not report": (
        [member("a", ORDERS), member("b", subscribes("bills"), subscriptions_source="group")],
        None,
        [],
    ),
    "one did not report, others differ": (
        [
            member("a", ORDERS),
            member("b", subscribes("orders", "A")),
            member("c", ORDERS, subscriptions_source="group"),
        ],
        False,
        ["EXPRESSION"],
    ),
}


@pytest.fixture(scope="module")
def computed(spark):
    rows = [
        row | {"consumer_group": name}
        for name, (members, _, _) in GROUPS.items()
        for row in members
    ]
    rows += [member("a", ORDERS, consumer_group="nobody reported", subscriptions_source="group")]
    rows += [member("a", ORDERS, consumer_group="another time", at=70)]
    collected = subscriptions(frame(spark, CLIENTS, rows), minutes(0, 60)).collect()
    assert len({row["consumer_group"] for row in collected}) == len(collected)
    return {row["consumer_group"]: row for row in collected}


@pytest.mark.parametrize("name", GROUPS)
def test_differences(computed, name):
    _, consistent, differences = GROUPS[name]
    row = computed[name]
    assert (row["consistent"], row["differences"]) == (consistent, differences)
    assert row["difference"] == (differences[0] if differences else None)


def test_groups_without_reports_have_no_row(computed):
    assert set(computed) == set(GROUPS)


def test_evidence_is_what_each_member_reported(computed):
    evidence = [
        row.asDict(recursive=True) for row in computed["one did not report, others differ"].evidence
    ]
    assert [(item["client_id"], item["subscriptions"]) for item in evidence] == [
        ("a", [{"topic": "orders", "expression_type": "TAG", "expression": "*"}]),
        ("b", [{"topic": "orders", "expression_type": "TAG", "expression": "A"}]),
        ("c", None),
    ]
