"""The pages in a real browser: filter, acknowledge, keyboard, refresh, and no complaint of it."""

import shutil
import threading
import time
from collections.abc import Iterator
from datetime import timedelta

import pytest
import uvicorn

from alerting.incidents.actions import one_incident
from board.application import application
from board.store import Store
from lab.layout import free_port_base
from lake.catalog import Lake
from tests.support import board_home
from tests.support.board_home import CLUSTER, QUEUES, add_snapshot, group

playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")

pytestmark = pytest.mark.skipif(
    CHROMIUM is None, reason="no Chromium: apt-get install chromium runs the tests of pages"
)

SECONDS = 60


@pytest.fixture
def address(lake: Lake) -> Iterator[str]:
    """A board that listens, on a home with an open incident."""
    add_snapshot(lake, board_home.now(), queues=QUEUES)
    board_home.add_incident(lake, board_home.now())
    port = free_port_base()
    config = uvicorn.Config(
        application(Store(lake)), port=port, log_level="warning", timeout_graceful_shutdown=1
    )
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    until = time.monotonic() + SECONDS
    while not server.started and time.monotonic() < until:
        time.sleep(0.05)
    yield f"http://127.0.0.1:{port}"
    server.should_exit = True
    thread.join(timeout=SECONDS)


@pytest.fixture
def page(address: str) -> Iterator[playwright.Page]:
    """A page of a browser, which must not complain of anything."""
    complaints: list[str] = []
    with playwright.sync_playwright() as started:
        browser = started.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        context = browser.new_context(base_url=address, locale="en-GB")
        context.set_default_timeout(SECONDS * 1000)
        made = context.new_page()
        made.on(
            "console",
            lambda message: complaints.append(message.text) if message.type == "error" else 0,
        )
        made.on("pageerror", lambda error: complaints.append(str(error)))
        yield made
        browser.close()
    assert complaints == []


def test_groups_filter_while_typing(page: playwright.Page) -> None:
    page.goto("/groups")
    playwright.expect(page.locator("tbody tr")).to_have_count(4)
    page.get_by_label("Name contains").press_sequentially("mail")
    playwright.expect(page.locator("tbody tr")).to_have_count(1)
    page.wait_for_url("**q=mail*")


def test_a_stranger_finds_and_acknowledges_by_keyboard(page: playwright.Page, lake: Lake) -> None:
    page.goto("/")
    page.get_by_role("link", name="stalled", exact=True).focus()
    page.keyboard.press("Enter")
    page.get_by_label("Why").first.focus()
    page.keyboard.type("looking at it")
    page.keyboard.press("Enter")
    playwright.expect(page.get_by_text("ACKNOWLEDGED", exact=True)).to_be_visible()
    playwright.expect(page.get_by_text("looking at it")).to_be_visible()
    found = one_incident(lake, page.url.partition("id=")[2])
    assert (found.state, found.acknowledge_reason) == ("ACKNOWLEDGED", "looking at it")


def test_a_page_refreshes_when_a_tick_lands(page: playwright.Page, lake: Lake) -> None:
    page.goto("/")
    playwright.expect(page.get_by_text("newcomer")).to_have_count(0)
    # The stream has told its first number by the time the page is at rest.
    page.wait_for_timeout(1500)
    at = board_home.now() + timedelta(minutes=1)
    add_snapshot(lake, at, [group("newcomer", lag=77)])
    playwright.expect(page.get_by_text("newcomer").first).to_be_visible()


def test_dark_colours_and_chinese_by_the_switch(page: playwright.Page) -> None:
    page.goto(f"/group?cluster={CLUSTER}&group=mailer")
    light = page.evaluate("getComputedStyle(document.body).backgroundColor")
    page.get_by_text("View", exact=True).click()
    page.get_by_role("button", name="dark").click()
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") != light
    page.get_by_text("View", exact=True).click()
    page.get_by_role("button", name="中文").click()
    playwright.expect(page.get_by_role("link", name="总览").first).to_be_visible()


def test_a_phone_shows_no_page_wider_than_itself(page: playwright.Page) -> None:
    page.set_viewport_size({"width": 390, "height": 844})
    for path in ("/", "/groups", f"/group?cluster={CLUSTER}&group=mailer", "/incidents"):
        page.goto(path)
        assert page.evaluate("document.documentElement.scrollWidth") <= 390, path
