"""The page of a broker: what it reported over time, and who waits on it."""

import json
import re
from datetime import datetime, timedelta
from typing import Any

import pytest
from fastapi.testclient import TestClient

from tests.support import board_home
from tests.support.board_home import CLUSTER, add_incident, add_snapshots, group, queue, rows_of
from tests.support.page_texts import HTML, drawn, page, plain
from tidemark.lake.catalog import Lake
from tidemark.lake.tables import progress, raw

PAGE = f"/broker?cluster={CLUSTER}&broker=broker-a"
OF_BROKER = {"broker": "broker-a", "consumer_group": None, "queue_id": None}
MASTER = {"broker": "broker-a", "broker_id": 0, "address": "10.0.0.1:10911"}


@pytest.fixture
def newest() -> datetime:
    return board_home.now() + timedelta(seconds=1)


def past(lake: Lake, newest: datetime, **of_newest: Any) -> None:
    """Add three snapshots of the master, the newest with other columns, and one of its slave."""
    groups = [group("mailer", health="STALLED"), group("billing")]
    queues = [
        queue("mailer", 0, broker="broker-a", lag=700, delay_ms=90_000),
        queue("mailer", 1, broker="broker-a", lag=None, delay_ms=None),
        queue("mailer", 0, broker="broker-b", lag=9_999, delay_ms=99_000_000),
        queue("billing", 0, broker="broker-a", lag=0, delay_ms=0),
    ]
    for back in (40, 20, 0):
        at = newest - timedelta(minutes=back)
        reported = {"disk_ratio": 0.5, "put_tps": 900.0, "get_tps": 1.0, "version": "V5_3_3",
                    "role": "ASYNC_MASTER", "dispatch_behind_bytes": 3_145_728}  # fmt: skip
        row = MASTER | reported | ({} if back else of_newest)
        slave = {"broker": "broker-a", "broker_id": 1, "address": "10.0.0.9:10911",
                 "version": "V5_3_3", "role": "SLAVE", "offsets_behind": 120}  # fmt: skip
        shown = () if back else queues
        add_snapshots(lake, {at: groups}, queues=shown, brokers=[row, slave])


@pytest.mark.slow
def test_charts_have_the_past_of_one_address(
    client: TestClient, filled: Lake, newest: datetime
) -> None:
    past(filled, newest, disk_ratio=0.8)
    text = page(client, PAGE)
    disk, behind, rates = drawn(text)
    assert disk["values"][0] == [0.5, 0.5, 0.4, 0.8], "that of `filled` is the third"
    assert [label for _, label in disk["rows"]] == ["0%", "50%", "100%"], "not squashed to 80%"
    assert behind["values"][0][-1] == 3_145_730 and rates["kinds"] == ["a", "b"]
    words = plain(text)
    assert "The disk of broker-a is 80% full." in words and "3 MiB" in words
    assert "messages behind in offsets" not in words
    slave = page(client, f"{PAGE}&address=10.0.0.9:10911")
    assert "messages behind in offsets 120" in plain(slave)


@pytest.mark.slow
def test_waits_of_sends_and_a_slave_that_is_behind_are_charts_where_they_are_known(
    client: TestClient, filled: Lake, newest: datetime
) -> None:
    past(filled, newest)
    assert len(drawn(page(client, PAGE))) == 3
    later = newest + timedelta(seconds=30)
    past(filled, later, send_wait_ms=240, page_cache_lock_ms=None, replica_behind_bytes=4096)
    _, _, _, waits, behind = drawn(page(client, PAGE))
    assert [values[-1] for values in waits["values"]] == [240, None]
    assert behind["values"][0][-1] == 4096


def test_groups_that_wait_have_numbers_of_this_broker_alone(
    client: TestClient, filled: Lake, newest: datetime
) -> None:
    past(filled, newest)
    words = plain(page(client, PAGE))
    assert re.search(r"mailer orders STALLED ≥ 1 m 30 s ≥ 700 2", words), words
    assert "billing orders" not in words, "nothing waits"
    assert "9,999" not in words, "another broker has them"


def test_a_broker_that_does_not_respond_says_since_when(
    client: TestClient, filled: Lake, newest: datetime
) -> None:
    gone = dict.fromkeys(("version", "role", "disk_ratio", "put_tps", "get_tps"), None)
    past(filled, newest, **gone)
    instants = filled.read(raw.BROKERS, columns=("observed_at",))["observed_at"].to_pylist()
    before = max(at for at in instants if at < newest)
    words = plain(page(client, PAGE))
    assert f"the last one it responded to is of {before:%Y-%m-%d %H:%M:%S} UTC" in words
    disk = drawn(page(client, PAGE))[0]["values"][0]
    assert disk == [0.5, 0.5, 0.4, None], "no line is drawn on"


@pytest.mark.slow
def test_topics_with_unreadable_messages_are_those_of_the_broker(
    client: TestClient, filled: Lake, newest: datetime
) -> None:
    past(filled, newest)
    settings = {"read_queues": 2, "write_queues": 4, "perm": 6}
    filled.append(
        raw.TOPICS,
        rows_of(raw.TOPICS, newest, [
            {"topic": "here", "broker": "broker-a"} | settings,
            {"topic": "elsewhere", "broker": "broker-b"} | settings,
        ]),
    )  # fmt: skip
    filled.append(
        progress.TOPICS,
        rows_of(progress.TOPICS, newest, [
            {"topic": name, "unreadable_messages": 400, "complete": True,
             "unreadable_reason": "BEYOND_READ_QUEUES"}
            for name in ("here", "elsewhere")
        ]),
    )  # fmt: skip
    words = plain(page(client, PAGE))
    assert "here 400" in words and "elsewhere" not in words


@pytest.mark.slow
def test_incidents_events_and_links_lead_to_and_from_it(
    client: TestClient, filled: Lake, newest: datetime
) -> None:
    past(filled, newest)
    at = newest - timedelta(minutes=10)
    down = {"kind": "BROKER_DOWN", "topic": None}
    filled.append(progress.EVENTS, rows_of(progress.EVENTS, at, [OF_BROKER | down]))
    about = {"cluster": CLUSTER, "broker": "broker-a", "address": MASTER["address"]}
    subject = f"{CLUSTER}/broker-a/{MASTER['address']}"
    evidence = json.dumps({"row": about})
    add_incident(filled, newest, rule="disk-full", subject=subject, evidence=evidence)
    other = json.dumps({"row": about | {"broker": "broker-b"}})
    add_incident(filled, newest, rule="of-another", subject=f"{CLUSTER}/broker-b", evidence=other)
    text = page(client, PAGE)
    assert "disk-full" in text and "of-another" not in text
    assert ["event", "BROKER DOWN"] in [mark[1:] for mark in drawn(text)[0]["marks"]]
    for path in ("/brokers", "/events"):
        assert f"/broker?cluster={CLUSTER}&amp;broker=broker-a" in page(client, path)


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/broker?cluster=nowhere&broker=broker-a", 404),
        (f"/broker?cluster={CLUSTER}&broker=nobody", 404),
        (f"{PAGE}&address=10.9.9.9:1", 404),
        (f"{PAGE}&range=90d", 400),
        (f"{PAGE}&range=1h&from=2026-01-01T00:00:00Z", 400),
    ],
)
def test_an_unknown_broker_or_range_is_one_clear_error(
    client: TestClient, path: str, status: int
) -> None:
    assert client.get(path, headers=HTML).status_code == status


@pytest.mark.slow
def test_pressure_on_a_broker_and_its_slave_has_units_and_marks(
    client: TestClient, filled: Lake, newest: datetime
) -> None:
    past(filled, newest, sends_waiting=41, send_wait_ms=150, failed_writes=3)
    behind = {"broker": "broker-a", "broker_id": 1, "address": "10.0.0.9:10911", "role": "SLAVE",
              "replica_behind_ms": 90_000, "replica_behind_is_lower_bound": True,
              "replica_behind_bytes": 4_096}  # fmt: skip
    later = newest + timedelta(seconds=1)
    add_snapshots(filled, {later: []}, queues=(), brokers=[MASTER | {"role": "M"}, behind])
    slave = plain(page(client, f"{PAGE}&address=10.0.0.9:10911"))
    assert "behind ≥ 1 m 30 s" in slave and "bytes behind 4 KiB" in slave
    master = plain(page(client, f"{PAGE}&at={newest.isoformat().replace('+00:00', 'Z')}"))
    assert "sends that wait 41" in master and "the first waits for 150 ms" in master
    assert "not written since its start 3" in master
