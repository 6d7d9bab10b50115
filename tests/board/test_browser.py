"""The pages in a real browser: filter, acknowledge, keyboard, refresh, and no complaint of it."""

import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest

from docs.generate.screenshots import AXE, FAULTS
from tests.support import board_home
from tests.support.board_home import CLUSTER, QUEUES, add_snapshot, add_snapshots, group
from tests.support.browser import browser_page
from tests.support.quality_rows import add_quarantined, add_results
from tests.support.served import served
from tidemark.alerting.delivery.silences import silences
from tidemark.alerting.incidents.actions import one_incident
from tidemark.board.application import application
from tidemark.board.store import Store
from tidemark.lake.catalog import Lake
from tidemark.lake.clocks import HOUR, floor_hour
from tidemark.lake.tables import alerting, progress
from tidemark.planning.quarantine_decisions import decisions

playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")

pytestmark = pytest.mark.slow

PIXEL = """() => {
    const canvas = document.querySelector("figure.drawn canvas");
    const [x, y] = [canvas.width * 0.3, canvas.height * 0.7];
    return [...canvas.getContext("2d").getImageData(x, y, 1, 1).data];
}"""
"""The colour of a point of the first chart below its line."""

GROUP = f"/group?cluster={CLUSTER}&group=mailer&topic=orders"


@pytest.fixture
def store(lake: Lake) -> Store:
    """The rows of a home with an open incident."""
    add_snapshot(lake, board_home.now(), queues=QUEUES)
    board_home.add_incident(lake, board_home.now())
    return Store(lake)


@pytest.fixture
def address(store: Store) -> Iterator[str]:
    """A board that listens."""
    with served(application(store)) as place:
        yield f"http://{place}"


@pytest.fixture
def page(address: str) -> Iterator[playwright.Page]:
    """A page of a browser, which must not complain of anything."""
    with browser_page(base_url=address) as made:
        yield made


def test_groups_filter_while_typing(page: playwright.Page) -> None:
    page.goto("/groups")
    playwright.expect(page.locator("tbody tr")).to_have_count(4)
    page.get_by_label("Name contains").press_sequentially("mail")
    playwright.expect(page.locator("tbody tr")).to_have_count(1)
    page.wait_for_url("**q=mail*")


def test_a_stranger_finds_and_acknowledges_by_keyboard(page: playwright.Page, lake: Lake) -> None:
    page.goto("/")
    page.get_by_role("link", name="stalled", exact=True).first.focus()
    page.keyboard.press("Enter")
    page.get_by_role("textbox", name="Why").first.focus()
    page.keyboard.type("looking at it")
    page.keyboard.press("Enter")
    playwright.expect(page.get_by_text("ACKNOWLEDGED", exact=True).first).to_be_visible()
    playwright.expect(page.get_by_text("looking at it")).to_be_visible()
    incident = one_incident(lake, page.url.partition("id=")[2])
    assert (incident.state, incident.acknowledge_reason) == ("ACKNOWLEDGED", "looking at it")


def test_a_page_refreshes_when_a_tick_lands(page: playwright.Page, lake: Lake) -> None:
    page.goto("/")
    playwright.expect(page.get_by_text("newcomer")).to_have_count(0)
    at = board_home.now() + timedelta(minutes=1)
    add_snapshot(lake, at, [group("newcomer", lag=77)])
    playwright.expect(page.get_by_text("newcomer").first).to_be_visible()


def test_a_tick_between_a_page_and_its_stream_is_not_missed(
    page: playwright.Page, store: Store
) -> None:
    held: list[playwright.Route] = []
    page.route("**/changes", lambda route: held.append(route))
    page.goto("/")
    add_snapshot(store.lake, board_home.now() + timedelta(minutes=1), [group("newcomer", lag=77)])
    wait_until_read(store)
    playwright.expect(page.get_by_text("newcomer")).to_have_count(0)
    (stream,) = held
    stream.continue_()
    playwright.expect(page.get_by_text("newcomer").first).to_be_visible()


def test_dark_colours_and_chinese_by_the_switch(page: playwright.Page) -> None:
    page.goto(f"/group?cluster={CLUSTER}&group=mailer")
    light = page.evaluate("getComputedStyle(document.body).backgroundColor")
    page.get_by_text("View", exact=True).click()
    page.get_by_role("button", name="dark").click()
    playwright.expect(page.locator("html[data-theme=dark]")).to_be_visible()
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") != light
    page.get_by_text("View", exact=True).click()
    page.get_by_role("button", name="中文").click()
    playwright.expect(page.get_by_role("link", name="总览").first).to_be_visible()


def test_a_phone_shows_no_page_wider_than_itself(page: playwright.Page) -> None:
    page.set_viewport_size({"width": 390, "height": 844})
    paths = ("/", "/groups", f"/group?cluster={CLUSTER}&group=mailer", "/incidents")
    for path in (*paths, "/dead-letters", "/topics", "/brokers", "/events", "/quality"):
        page.goto(path)
        assert page.evaluate("document.documentElement.scrollWidth") <= 390, path


def wait_until_read(store: Store) -> None:
    """Waits until the board shows all rows that were written before."""
    written_at, deadline = datetime.now(UTC), time.monotonic() + 60
    while store.checked_at is None or store.checked_at < written_at:
        assert time.monotonic() < deadline, "the board does not read the tables"
        store.note_request()
        time.sleep(0.1)
    assert store.problem is None


def add_more(store: Store) -> list[str]:
    """Adds dead letters, a failed expectation and quarantined rows; returns the ids of these."""
    lake = store.lake
    at = lake.read(progress.SNAPSHOTS, columns=("observed_at",))["observed_at"].to_pylist()[-1]
    topic = {"topic": "%DLQ%mailer", "messages": 3, "added_last_hour": 1, "complete": True}
    topic |= {"oldest_at": at - timedelta(hours=30), "newest_at": at}
    lake.append(progress.TOPICS, board_home.rows_of(progress.TOPICS, at, [topic]))
    add_results(lake, at, {"expectation": "few", "success": False, "unexpected": 2})
    ids = add_quarantined(lake, at, 1, 2)
    wait_until_read(store)
    return ids


def test_a_quarantined_row_is_released_by_keyboard(
    page: playwright.Page, lake: Lake, store: Store
) -> None:
    (row, _) = add_more(store)
    page.goto("/quality")
    page.get_by_label(f"Choose {row}").focus()
    page.keyboard.press("Space")
    page.get_by_role("textbox", name="Why").first.focus()
    page.keyboard.type("the broker confirms it")
    page.get_by_role("button", name="Release").focus()
    page.keyboard.press("Enter")
    playwright.expect(page.get_by_text("tidemark recompute --from")).to_be_visible()
    (decision,) = decisions(lake)
    assert (decision.row_id, decision.comment) == (row, "the broker confirms it")


def test_a_tick_leaves_a_form_that_a_person_fills_in(
    page: playwright.Page, lake: Lake, store: Store
) -> None:
    """The page refreshes only its results."""
    (row, _) = add_more(store)
    page.goto("/quality")
    page.get_by_label(f"Choose {row}").check()
    page.get_by_role("textbox", name="Why").first.fill("half a reason")
    at = board_home.now() + timedelta(minutes=1)
    add_results(lake, at, {"expectation": "newly_failed", "success": False, "unexpected": 7})
    add_snapshot(lake, at)
    playwright.expect(page.get_by_text("newly_failed")).to_be_visible()
    assert page.get_by_role("textbox", name="Why").first.input_value() == "half a reason"
    assert page.get_by_label(f"Choose {row}").is_checked()


@pytest.mark.parametrize("theme, width", [("light", 1280), ("dark", 390)])
def test_axe_finds_no_serious_fault(
    page: playwright.Page, lake: Lake, store: Store, theme: str, width: int
) -> None:
    """On every page; axe-core is loaded past the policy that forbids scripts in pages."""
    page.emulate_media(color_scheme=theme)  # pyright: ignore
    page.set_viewport_size({"width": width, "height": 844})
    (row,) = lake.read(alerting.INCIDENTS, columns=("incident_id",)).to_pylist()
    add_more(store)
    paths = ["/", "/groups", GROUP, "/incidents", f"/incident?id={row['incident_id']}", "/topics"]
    paths += [f"/topic?cluster={CLUSTER}&topic=orders", "/brokers", "/events", "/quality"]
    paths += ["/dead-letters", "/groups?at=2026-01-01T00:00:00Z"]
    faults = {}
    for path in paths:
        page.goto(path)
        page.evaluate(AXE.read_text(encoding="utf-8"))
        if evaluated := page.evaluate(FAULTS):
            faults[path] = evaluated
    assert faults == {}


def add_past(store: Store) -> None:
    now = board_home.now()
    groups = {
        now - timedelta(minutes=back): [group("mailer", lag=1000 + back)]
        for back in (50, 40, 30, 20, 10)
    }
    add_snapshots(store.lake, groups, queues=QUEUES)
    wait_until_read(store)


def test_a_pointer_reads_a_chart_and_a_drag_shows_a_part(
    page: playwright.Page, store: Store
) -> None:
    add_past(store)
    page.goto(GROUP)
    plot = page.locator("figure.drawn .u-over").first
    plot.scroll_into_view_if_needed()
    box = plot.bounding_box()
    assert box
    middle = box["y"] + box["height"] / 2
    page.mouse.move(box["x"] + box["width"] / 2, middle)
    playwright.expect(page.locator(".when").first).to_contain_text("20")
    playwright.expect(page.locator(".legend b").first).to_contain_text("1,0")
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] * 0.9, middle, steps=4)
    page.mouse.up()
    page.wait_for_url("**from=*")
    playwright.expect(page.locator("figure.drawn").first).to_be_visible()
    assert "to=" in page.url and "range=" not in page.url


@pytest.mark.parametrize("width", [1280, 390])
def test_a_pointer_reads_the_usual_range_of_an_hour(
    page: playwright.Page, lake: Lake, store: Store, width: int
) -> None:
    add_past(store)
    hour = floor_hour(board_home.now()) - HOUR
    row = {"consumer_group": "mailer", "hour_of_week": 1, "weeks": 3}
    rows = [
        row | {"hour": hour + HOUR * place, "lag_low": 5.0, "lag_high": 60_000.0 + place}
        for place in (0, 1)
    ]
    lake.append(progress.BASELINES, board_home.rows_of(progress.BASELINES, hour, rows))
    wait_until_read(store)
    page.set_viewport_size({"width": width, "height": 844})
    page.goto(f"{GROUP}&from={hour:%Y-%m-%dT%H:%M}&to={board_home.now():%Y-%m-%dT%H:%M:%S}")
    legend = page.locator("figure.drawn .legend .range")
    playwright.expect(legend).to_have_count(1)
    plot = page.locator("figure.drawn .u-over").first
    plot.scroll_into_view_if_needed()
    box = plot.bounding_box()
    assert box
    seen = set()
    for share in (0.02, 0.98):
        page.mouse.move(box["x"] + box["width"] * share, box["y"] + box["height"] / 2)
        playwright.expect(page.locator(".when").first).to_contain_text("20")
        seen.add(legend.text_content())
    assert seen <= {"5 – 60,000", "5 – 60,001"} and seen
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    inside = page.evaluate(PIXEL)
    assert inside[3] > 0, "the range is painted where the line is not"


def test_without_javascript_pages_can_be_read(address: str, store: Store) -> None:
    add_past(store)
    with browser_page(base_url=address, java_script_enabled=False) as made:
        made.goto(GROUP)
        playwright.expect(made.locator("figure svg").first).to_be_visible()
        playwright.expect(made.locator(".plot").first).to_be_hidden()
        made.goto("/groups")
        made.get_by_label("Name contains").fill("mail")
        made.get_by_role("button", name="Filter").click()
        playwright.expect(made.locator("tbody tr")).to_have_count(1)


def test_maintenance_is_planned_by_keyboard(page: playwright.Page, lake: Lake) -> None:
    page.goto("/incidents")
    page.get_by_text("Plan maintenance").focus()
    page.keyboard.press("Enter")
    page.get_by_label("Topic").fill("orders")
    page.get_by_label("From (UTC)").fill("2030-01-01T02:00")
    page.get_by_label("Why").fill("upgrade of the brokers")
    page.keyboard.press("Enter")
    playwright.expect(page.get_by_text("PLANNED")).to_be_visible()
    (made,) = silences(lake.shared.state)
    assert made.starts_at and made.starts_at.year == 2030 and made.match == {"topic": ("orders",)}


def test_a_page_goes_back_in_time(page: playwright.Page, store: Store) -> None:
    add_past(store)
    page.goto("/groups")
    page.get_by_text("View", exact=True).click()
    at = board_home.now() - timedelta(minutes=25)
    page.get_by_label("As of (UTC)").fill(f"{at:%Y-%m-%dT%H:%M:%S}")
    page.get_by_role("button", name="Show").click()
    playwright.expect(page.get_by_text("1,030")).to_be_visible()
    playwright.expect(page.locator("tbody tr")).to_have_count(1)
    page.get_by_role("link", name="back to now").click()
    playwright.expect(page.locator("tbody tr")).to_have_count(4)
