"""Where things stand in a real browser: what a phone shows, what fits, where names break."""

from collections.abc import Iterator
from datetime import timedelta
from itertools import pairwise

import pytest

from tests.support import board_home
from tests.support.board_home import CLUSTER, add_snapshots, group, queue, rows_of
from tests.support.browser import browser_page
from tests.support.served import served
from tidemark.board.application import application
from tidemark.board.store import Store
from tidemark.lake.catalog import Lake
from tidemark.lake.tables import progress, raw

playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")

pytestmark = pytest.mark.slow

LONG = "payments-settlement-archiver-eu-west-1"
TOPIC = "payments.settlement-confirmed_v2"
MEMBER = "settlement-archiver-6f7d9c5b8d-x2xqp@1#4c9a7e2f"
PATHS = (
    *("/", "/groups", "/incidents", "/topics", "/brokers", "/events", "/quality"),
    f"/group?cluster={CLUSTER}&group={LONG}",
    f"/topic?cluster={CLUSTER}&topic={TOPIC}",
    f"/broker?cluster={CLUSTER}&broker=broker-a",
)
WIDTHS = (1440, 1024, 390)

BROKEN_WORDS = """() => {
    const pieces = [...document.querySelectorAll("bdi")].flatMap((each) => [...each.childNodes])
        .filter((node) => node.nodeType === Node.TEXT_NODE && node.data.trim()
            && !node.data.includes(" ") && node.data.length <= 24);
    return pieces.filter((node) => {
        const range = document.createRange();
        range.selectNodeContents(node);
        const lines = new Set([...range.getClientRects()].map((each) => Math.round(each.top)));
        return lines.size > 1;
    }).map((node) => node.data);
}"""

TOO_WIDE = """() => [...document.querySelectorAll("main .card, main section")]
    .filter((each) => each.scrollWidth > each.clientWidth + 1 && !each.classList.contains("scroll"))
    .map((each) => each.className + " " + each.getAttribute("aria-label"))"""


@pytest.fixture
def page(lake: Lake) -> Iterator[playwright.Page]:
    now = board_home.now()
    blocked = group(LONG, topic=TOPIC, health="BLOCKED", lag=12_220, delay_ms=1_560_000,
                    health_reason="broker-a/1: commit stays at 40000")  # fmt: skip
    groups = {
        now - timedelta(minutes=back): [blocked, group("mailer", topic="lab_orders", lag=back)]
        for back in (20, 10, 0)
    }
    queues = [queue(LONG, number, topic=TOPIC) for number in range(4)]
    add_snapshots(lake, groups, queues=queues)
    members = [{"consumer_group": LONG, "client_id": MEMBER, "client_address": "10.0.0.1:5",
                "language": "JAVA", "version": "V5_1_4"}]  # fmt: skip
    lake.append(raw.CLIENTS, rows_of(raw.CLIENTS, now, members))
    held = [
        {"consumer_group": LONG, "topic": TOPIC, "queue_id": number, "actual_client_id": MEMBER,
         "expected_client_id": MEMBER, "state": "OK"}
        for number in range(4)
    ]  # fmt: skip
    lake.append(progress.ASSIGNMENTS, rows_of(progress.ASSIGNMENTS, now, held))
    board_home.add_incident(lake, now, kind="stalled", subject=f"{CLUSTER}/{LONG}/{TOPIC}")
    with (
        served(application(Store(lake))) as place,
        browser_page(base_url=f"http://{place}") as made,
    ):
        yield made


def test_pages_fit_and_names_break_at_separators(page: playwright.Page) -> None:
    faults = {}
    for width in WIDTHS:
        page.set_viewport_size({"width": width, "height": 844})
        for path in PATHS:
            page.goto(path)
            names = [
                *(
                    []
                    if page.evaluate("document.documentElement.scrollWidth") <= width
                    else ["wide"]
                ),
                *page.evaluate(BROKEN_WORDS),
                *page.evaluate(TOO_WIDE),
            ]
            if names:
                faults[width, path] = names
    assert faults == {}


def test_a_phone_shows_name_health_delay_and_lag_and_all_pages(page: playwright.Page) -> None:
    page.set_viewport_size({"width": 390, "height": 844})
    page.goto("/groups")
    row = page.locator("tbody tr").first
    shown = [row.get_by_role("link", name=LONG), row.get_by_text("BLOCKED"),
             row.get_by_text("26 m", exact=True), row.get_by_text("12,220")]  # fmt: skip
    shown += page.locator("header nav a").all()
    for item in shown:
        box = item.bounding_box()
        assert box and box["x"] >= 0 and box["x"] + box["width"] <= 390, item


def test_no_cell_of_a_table_is_beyond_the_edge_of_a_phone(page: playwright.Page) -> None:
    page.set_viewport_size({"width": 390, "height": 844})
    for path in PATHS:
        page.goto(path)
        cut = page.evaluate(
            "[...document.querySelectorAll('tbody th, tbody td')].filter((each) => each"
            ".checkVisibility() && each.getBoundingClientRect().right > innerWidth)"
            ".map((each) => each.textContent)"
        )
        assert cut == [], path


@pytest.mark.parametrize("width", [1440, 1280])
def test_the_table_of_brokers_fits(page: playwright.Page, width: int) -> None:
    page.set_viewport_size({"width": width, "height": 844})
    page.goto("/brokers")
    sizes = page.locator(".scroll").first.evaluate("(each) => [each.scrollWidth, each.clientWidth]")
    assert sizes[0] <= sizes[1]


def test_headings_and_landmarks_are_in_order(page: playwright.Page) -> None:
    """One h1 a page, no level left out, one main, and the skip link is the first to be focused."""
    for path in PATHS:
        page.goto(path)
        levels = page.evaluate(
            "[...document.querySelectorAll('h1,h2,h3')].map((each) => Number(each.tagName[1]))"
        )
        assert levels.count(1) == 1, path
        assert all(after - before <= 1 for before, after in pairwise(levels)), path
        assert page.locator("main").count() == 1
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip"


def test_an_empty_board_fills_itself(lake: Lake) -> None:
    """It is opened while the first tick runs, and nobody should have to reload it."""
    with (
        served(application(Store(lake))) as place,
        browser_page(base_url=f"http://{place}") as made,
    ):
        for path in ("/topics", "/brokers", "/events", "/groups", "/"):
            made.goto(path)
            playwright.expect(made.get_by_text("Nothing is computed yet")).to_be_visible()
            assert made.locator("h1").count() == 1, "nothing else than what happens now"
        add_snapshots(lake, {board_home.now(): [group("newcomer", lag=77)]})
        playwright.expect(made.get_by_text("newcomer").first).to_be_visible()
        playwright.expect(made.get_by_text("Nothing is computed yet")).to_have_count(0)
