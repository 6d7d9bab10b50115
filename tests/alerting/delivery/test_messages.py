"""Messages for people: event, numbers, start and remedy."""

import json
from dataclasses import replace

import msgspec
import pytest

from tests.support.notified_incidents import FIRING, RESOLVED, incident, notification
from tidemark.alerting.delivery.messages import (
    MOST_IN_FULL,
    as_json,
    body,
    observed,
    page_of,
    text,
    title,
)
from tidemark.alerting.delivery.templates import Words
from tidemark.alerting.incidents.life_cycle import NO_RULE
from tidemark.alerting.incidents.repository import (
    CLUSTER_REMOVED,
    EXPECTATION_REMOVED,
    OBJECTIVE_REMOVED,
)
from tidemark.alerting.rules.kinds import KINDS


def test_a_message_names_value_times_evidence_and_next_step():
    assert title([notification(FIRING)]) == "[critical] FIRING lag: lab/billing/orders"
    bounds = {"last_value_bound": "lower", "peak_value_bound": "lower"}
    bounded = incident(("FIRING", 0), **bounds)
    assert text(notification(bounded)).split("\n") == [
        "[critical] FIRING lag: lab/billing/orders",
        "The group is late.",
        "Observed: ≥ 1,500 messages wait (threshold 1,000 messages), most on broker-b queue 3: "
        "≥ 1,490, the oldest for ≥ 1 m 1 s, 2 of 8 queues unknown, so a lower bound",
        "Opened: 2026-11-19 11:58:00 UTC, last observed 2026-11-19 12:00:00 UTC",
        "Peak: ≥ 2,500 messages",
        "Next step: More is produced than consumed: look for slow or failing handling, then for "
        "too few clients or threads (tidemark plan).",
        "Evidence: s0, s1",
        "Labels: team=billing",
        f"Details: tidemark incidents show {FIRING.incident_id}",
        "Runbook: https://wiki/lag",
    ]
    resolved = text(notification(RESOLVED, 1)).split("\n")
    assert resolved[0] == "[critical] RESOLVED lag: lab/billing/orders"
    assert "Resolved: 2026-11-19 12:09:00 UTC, opened 2026-11-19 11:58:00 UTC" in resolved
    assert not any(line.startswith(("Likely cause:", "Next step:")) for line in resolved)


@pytest.mark.parametrize(
    ("kind", "value", "lines"),
    [
        (
            "blocked",
            12,
            [
                "Observed: 12 messages wait and messages handed out are not finished, most on "
                "broker-a queue 1: 12, the oldest for 7 s",
                "Likely cause: broker-a/1: commit stays at 7",
            ],
        ),
        ("rewound", 340, ["Observed: 340 messages will be consumed again: the offset went back"]),
        (
            "idle_clients",
            2,
            [
                "Observed: 2 members hold no queue",
                "Likely cause: HASH_LUCK, MORE_CLIENTS_THAN_QUEUES",
            ],
        ),
    ],
)
def test_only_backlog_rules_name_the_worst_queue(kind, value, lines):
    row = {
        **{"worst_broker": "broker-a", "worst_queue_id": 1, "max_queue_lag": 12},
        **{"delay_ms": 7_000, "health_reason": "broker-a/1: commit stays at 7"},
        **{"idle_reasons": ["HASH_LUCK", "MORE_CLIENTS_THAN_QUEUES"], "rewound_cause": None},
    }
    evidence = json.dumps({"row": row})
    fires = incident(("FIRING", 0), kind=kind, last_value=value, threshold=0.0, evidence=evidence)
    lines_sent = text(notification(fires)).split("\n")
    assert [line for line in lines_sent if line.startswith(("Observed:", "Likely cause:"))] == lines
    assert f"Next step: {KINDS[kind].hint}" in lines_sent


@pytest.mark.parametrize(
    ("value", "words"),
    [(3.0, "3 rows violate it"), (None, "the rows as a whole violate it")],
)
@pytest.mark.parametrize("evidence", ["{}", json.dumps({"words": KINDS["quality"].words})])
def test_an_expectation_of_a_whole_column_counts_no_rows(value, words, evidence):
    """The evidence of an evaluation has the words of the kind."""
    fires = incident(
        ("FIRING", 0), kind="quality", last_value=value, threshold=0.0, evidence=evidence
    )
    assert f"Observed: {words}" in text(notification(fires)).split("\n")


@pytest.mark.parametrize("kind", [name for name, kind in KINDS.items() if kind.words_one])
def test_one_is_worded_as_one(kind):
    evidence = json.dumps({"words": KINDS[kind].words, "row": {}})
    fires = incident(("FIRING", 0), kind=kind, last_value=1.0, threshold=0.0, evidence=evidence)
    observed = KINDS[kind].words_one.format(value="1")
    assert f"Observed: {observed}" in text(notification(fires)).split("\n")


@pytest.mark.parametrize("kind", ["contested_queues", "unowned_queues", "lag"])
def test_shared_client_ids_are_a_cause(kind):
    row = {"duplicate_client_ids": 2, "health": "OK"}
    fires = incident(("FIRING", 0), kind=kind, threshold=0.0, evidence=json.dumps({"row": row}))
    cause = "Likely cause: 2 client ids are used by several processes"
    assert cause in text(notification(fires)).split("\n")


def test_many_notifications_are_one_message_worst_first():
    many = [
        notification(incident(("FIRING", 0), group=f"g-{n}", severity="warning")) for n in range(30)
    ]
    many += [notification(RESOLVED, 1), notification(incident(("FIRING", 0), group="worst"))]
    assert title(many) == "Tidemark: 1 critical, 30 warning, 1 resolved"
    message = body(many)
    assert message.startswith("[critical] FIRING lag: lab/worst/orders")
    assert message.count("Evidence:") == MOST_IN_FULL
    assert message.endswith(f"and {32 - MOST_IN_FULL} more: tidemark incidents list")


def test_a_message_links_to_the_board_where_its_address_is_known():
    page = page_of(FIRING, "https://board.example.org/")
    assert page == f"https://board.example.org/incident?id={FIRING.incident_id}"
    linked = replace(notification(FIRING), url=page)
    assert f"Board: {page}" in text(linked).split("\n")
    assert f"看板:{page}" in Words("zh").body([linked]).split("\n")
    assert as_json(linked)["url"] == page
    unlinked = notification(FIRING)
    assert page_of(FIRING, "") == "" and as_json(unlinked)["url"] is None
    assert "Board:" not in text(unlinked) and "看板" not in Words("zh").body([unlinked])


def test_a_repeat_is_marked_in_english_and_chinese() -> None:
    first, second = notification(FIRING), replace(notification(FIRING), repeat=2)
    line = "[critical] FIRING lag: lab/billing/orders (repeat 2)"
    assert title([second]) == body([second]).split("\n")[0] == line
    over = notification(RESOLVED, 1)
    assert title([first, second, over]) == "Tidemark: 1 critical, 1 repeated, 1 resolved"
    chinese = Words("zh")
    line = "[严重] 触发 lag:lab/billing/orders(第 2 次重复)"
    assert chinese.title([second]) == chinese.body([second]).split("\n")[0] == line
    assert chinese.title([first, second, over]) == "Tidemark:1 个触发,1 个重复,1 个恢复"


def test_a_resolution_states_the_recovery() -> None:
    """Not the trouble, as if it went on."""
    evidence = {"description": "No new snapshot for five minutes.", "row": {}}
    late = msgspec.structs.replace(
        RESOLVED, kind="collection_late", last_value=360.0, evidence=json.dumps(evidence)
    )
    lines = body([notification(late, 1)]).split("\n")
    assert "Recovered: a new snapshot has been computed" in lines
    assert "No new snapshot for five minutes." not in lines
    assert not any(line.startswith("Observed:") for line in lines)
    assert any(
        line.startswith("Observed while it fired: the newest computed snapshot is 6 m")
        for line in lines
    )
    chinese = Words("zh").body([notification(late, 1)])
    assert "恢复原因:已计算出新的快照" in chinese and "\n观测:" not in chinese


def test_an_unusual_number_stands_beside_the_usual_ones():
    row = {
        **{"hour_of_week": 24 + 10, "usual_low_delay_ms": 2_000.0, "usual_high_delay_ms": 5_000.0},
        **{"usual_low_lag": 3.0, "usual_high_lag": 25.0, "delay_ms": 140_000, "lag": 3_500},
    }
    late = msgspec.structs.replace(
        incident(("FIRING", 0)), kind="unusual", threshold=3.0, evidence=json.dumps({"row": row})
    )
    said = observed(late)
    assert "Tuesdays 10:00 UTC: 2 s to 5 s, now 2 m 20 s; 3 to 25 messages, now 3,500" in said


@pytest.mark.parametrize(
    "reason", [NO_RULE, CLUSTER_REMOVED, EXPECTATION_REMOVED, OBJECTIVE_REMOVED]
)
def test_a_reason_to_close_is_in_the_language_of_the_message(reason):
    over = msgspec.structs.replace(RESOLVED, evidence=json.dumps({"closed": reason}))
    assert f"Closed: {reason}" in body([notification(over, 1)]).split("\n")
    assert reason not in Words("zh").body([notification(over, 1)])


@pytest.mark.parametrize("health", ["UNKNOWN", "OK", "IDLE"])
def test_a_reason_that_explains_nothing_is_no_cause(health):
    row = {"health": health, "health_reason": "too few observations to judge: 1 of 1 known"}
    fires = incident(("FIRING", 0), evidence=json.dumps({"row": row}))
    assert "Likely cause" not in text(notification(fires))
