"""``/metrics`` of a home, over HTTP."""

import gzip
from datetime import timedelta

import pytest
from fastapi.testclient import TestClient

from tests.support import board_home
from tests.support.scrape import Samples, scraped, value
from tidemark.board.application import application
from tidemark.board.metrics.feed import MetricsKeeper
from tidemark.board.store import Store
from tidemark.board.views.scope import Scope
from tidemark.lake.catalog import Lake
from tidemark.lake.tables import alerting, raw
from tidemark.settings.owners import Owners
from tidemark.settings.sections import MetricsSettings

EVERYTHING = Scope(Owners())


def samples_of(store: Store) -> Samples:
    keeper = MetricsKeeper(store, MetricsSettings(), "1.2.3")
    keeper.refresh()
    return scraped(keeper.page("", "", EVERYTHING).body.decode())


def test_prometheus_text_unless_openmetrics_is_requested(reader: TestClient) -> None:
    plain = reader.get("/metrics")
    assert plain.status_code == 200
    assert plain.headers["content-type"].startswith("text/plain; version=")
    samples = scraped(plain.text)
    labels = {"cluster": "shop", "consumer_group": "billing", "topic": "orders"}
    assert value(samples, "rocketmq_consumer_lag_messages", **labels) == 120
    assert value(samples, "rocketmq_group_diff", group="billing", topic="orders") == 120
    assert value(samples, "tidemark_group_health", consumer_group="mailer", state="STALLED") == 1

    accept = {"accept": "application/openmetrics-text;version=1.0.0;q=0.8,text/plain;q=0.5"}
    opened = reader.get("/metrics", headers=accept)
    assert opened.headers["content-type"].startswith("application/openmetrics-text")
    assert scraped(opened.text, is_openmetrics=True).keys() == samples.keys()


def test_the_page_is_compressed_once(reader: TestClient) -> None:
    with reader.stream("GET", "/metrics", headers={"accept-encoding": "gzip"}) as response:
        packed = b"".join(response.iter_raw())
    assert response.headers["content-encoding"] == "gzip"
    assert gzip.decompress(packed).startswith(b"# HELP")
    plain = reader.get("/metrics", headers={"accept-encoding": "identity"})
    assert plain.content.startswith(b"# HELP")


def test_of_itself(store: Store) -> None:
    samples = samples_of(store)
    age = value(samples, "tidemark_snapshot_age_seconds", cluster="shop")
    assert age is not None and 0 <= age < 600
    assert value(samples, "tidemark_rows", table="progress.snapshots") == 1
    tick = value(samples, "tidemark_tick_duration_seconds")
    assert tick is not None and 0 <= tick < 600
    assert value(samples, "tidemark_build_info", version="1.2.3") == 1


def test_an_empty_home_has_metrics_of_itself(lake: Lake) -> None:
    store = Store(lake, lambda: False)
    store.refresh()
    samples = samples_of(store)
    assert value(samples, "tidemark_build_info", version="1.2.3") == 1
    assert not [name for name in samples if name.startswith("rocketmq")]


def test_families_are_switched_by_settings(store: Store) -> None:
    settings = MetricsSettings(native=False, exporter=False)
    with TestClient(application(store, settings), base_url="http://127.0.0.1") as client:
        samples = scraped(client.get("/metrics").text)
    assert {name.partition("_")[0] for name in samples} == {"tidemark"}


def test_counters_are_of_the_newest_deep_snapshot(lake: Lake) -> None:
    """Deep snapshots are rarer: the newest one within an hour counts."""
    now = board_home.now()
    common = {"broker_id": 0, "stats_window": "minute", "stats_key": "orders@billing"}
    for minutes, tps in ((12, 1.0), (2, 5.0)):
        at = now - timedelta(minutes=minutes)
        row = {"stats_name": "GROUP_GET_SIZE", "consumer_group": "billing", "tps": tps}
        lake.append(raw.BROKER_STATS, board_home.rows_of(raw.BROKER_STATS, at, [common | row]))
    board_home.add_snapshot(lake, now)
    store = Store(lake)
    store.refresh()
    samples = samples_of(store)
    assert value(samples, "rocketmq_consumer_message_size", group="billing") == 5


@pytest.mark.parametrize(("status", "outcome"), [("DELIVERED", "delivered"), ("PENDING", "failed")])
def test_notifications_of_the_table_count(store: Store, status: str, outcome: str) -> None:
    row = {"incident_id": "i", "transition": "FIRING", "channel": "mail", "attempts": 1}
    row |= {"status": status, "transition_at": board_home.now()}
    names = alerting.NOTIFICATIONS.column_names
    store.lake.append(alerting.NOTIFICATIONS, [{name: row.get(name) for name in names}])
    store.refresh()
    labels = {"channel": "mail", "outcome": outcome}
    assert value(samples_of(store), "tidemark_notifications_total", **labels) == 1


def test_what_cannot_be_read_leaves_the_metrics(store: Store, monkeypatch) -> None:
    keeper = MetricsKeeper(store, MetricsSettings(), "1.2.3")
    keeper.refresh()
    before = keeper.page("", "", EVERYTHING).body

    def broken(*_: object) -> None:
        raise OSError("no such file")

    monkeypatch.setattr(keeper._feed, "refresh", broken)
    keeper.refresh()
    name = "rocketmq_consumer_lag_messages"
    assert (
        scraped(keeper.page("", "", EVERYTHING).body.decode())[name]
        == scraped(before.decode())[name]
    )
