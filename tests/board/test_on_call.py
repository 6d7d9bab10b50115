"""Ten questions of a person on call, in a browser as wide as a phone: the clicks of each.

`docs/board.md` has the same numbers. Each question begins on the overview.
"""

import json
import re
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from tests.support import board_home
from tests.support.board_home import (
    CLUSTER,
    GROUPS,
    QUEUES,
    add_incident,
    add_snapshots,
    group,
    rows_of,
)
from tests.support.browser import browser_page
from tests.support.served import served
from tidemark.board.application import application
from tidemark.board.store import Store
from tidemark.lake.catalog import Lake
from tidemark.lake.tables import alerting, progress, raw
from tidemark.live.diagnosis import ClientStacks, Diagnosis, FirstMessage, to_json
from tidemark.model.consumption import LookupOutcome, StackOutcome
from tidemark.rocketmq.admin.stored_messages import Message
from tidemark.rocketmq.stacks import ConsumeStacks, Stack

playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")

pytestmark = pytest.mark.slow

MEMBERS = ("10.0.0.1@77", "10.0.0.2@78")
LINE = "com.shop.Mail.send(Mail.java:41)"
KEY = "order-4711"
CHANNEL = "pager"
LOST = 55


class Hand:
    """Clicks, and counts its clicks."""

    def __init__(self, page: playwright.Page) -> None:
        self.page = page
        self.clicks = 0

    def click(self, role: str, name: str | re.Pattern[str], within: str = "main") -> None:
        place = self.page.locator(within).get_by_role(role, name=name)  # pyright: ignore
        place.first.click()
        self.clicks += 1

    def sees(self, text: str | re.Pattern[str], within: str = "main") -> None:
        place = self.page.locator(within).get_by_text(text)
        playwright.expect(place.locator("visible=true").first).to_be_visible()

    def open_group(self) -> None:
        self.click("link", "mailer", "section[aria-labelledby=h-worst]")

    def open_incident(self) -> None:
        self.click("link", "stalled", "section[aria-labelledby=h-incidents]")


def which_group(hand: Hand) -> None:
    hand.sees("mailer", "section[aria-labelledby=h-worst] tbody tr:first-child")


def which_queue(hand: Hand) -> None:
    hand.open_group()
    hand.sees("broker-a / 3", "section[aria-labelledby=h-why]")


def which_client(hand: Hand) -> None:
    hand.open_group()
    hand.sees(MEMBERS[1], "section[aria-labelledby=h-why]")


def which_line(hand: Hand) -> None:
    hand.open_group()
    hand.sees(LINE, "section[aria-labelledby=h-why]")


def which_message(hand: Hand) -> None:
    hand.open_group()
    hand.sees(KEY, "section[aria-labelledby=h-why]")


def since_when(hand: Hand) -> None:
    hand.sees(re.compile(r"^3 m"), "section[aria-labelledby=h-incidents]")


def who_was_told(hand: Hand) -> None:
    hand.open_incident()
    hand.sees(CHANNEL, "section[aria-label='Who was notified']")


def was_it_worse_last_week(hand: Hand) -> None:
    hand.open_group()
    hand.click("link", "7d", "section[aria-labelledby=h-time]")
    chart = hand.page.locator("figure.chart", has=hand.page.get_by_role("heading", name="lag"))
    plot = chart.locator(".plot .u-over")
    plot.scroll_into_view_if_needed()
    box = plot.bounding_box()
    assert box
    plot.click(position={"x": box["width"] * 0.02, "y": box["height"] / 2})
    hand.clicks += 1
    playwright.expect(chart.locator(".legend").get_by_text("200,000").first).to_be_visible()


def how_many_members(hand: Hand) -> None:
    hand.open_group()
    hand.sees(MEMBERS[0], "section[aria-labelledby=h-members]")


def what_was_lost(hand: Hand) -> None:
    hand.open_group()
    hand.sees(str(LOST), "section[aria-label=Numbers]")


QUESTIONS: dict[str, Callable[[Hand], None]] = {
    "Which group is worst?": which_group,
    "Which of its queues?": which_queue,
    "Which client holds that queue?": which_client,
    "Which line of the client's code does not return?": which_line,
    "Which message is it about?": which_message,
    "Since when?": since_when,
    "Who was notified?": who_was_told,
    "Was it worse last week?": was_it_worse_last_week,
    "How many members has the group?": how_many_members,
    "What was lost?": what_was_lost,
}


def documented() -> dict[str, int]:
    text = (Path(__file__).parents[2] / "docs" / "board.md").read_text()
    rows = re.findall(r"^\| ([A-Z][^|]*\?) \|[^|]*\| (\d) \|$", text, re.MULTILINE)
    return {question: int(clicks) for question, clicks in rows}


@pytest.fixture
def address(lake: Lake) -> Iterator[str]:
    now = board_home.now()
    opened = now - timedelta(minutes=3)
    lost = [group | {"lost": LOST} if group["consumer_group"] == "mailer" else group
            for group in GROUPS]  # fmt: skip
    worse = [group("mailer", lag=200_000, readable_lag=200_000, health="STALLED")]
    before = {now - timedelta(days=7, minutes=-number): worse for number in range(60, 240)}
    add_snapshots(lake, before)
    add_snapshots(lake, {opened: lost, now: lost}, queues=QUEUES)
    held = [
        {"consumer_group": "mailer", "queue_id": number, "actual_client_id": MEMBERS[number // 2],
         "expected_client_id": MEMBERS[number // 2], "state": "OK"}
        for number in range(4)
    ]  # fmt: skip
    lake.append(progress.ASSIGNMENTS, rows_of(progress.ASSIGNMENTS, now, held))
    members = [{"consumer_group": "mailer", "client_id": name} for name in MEMBERS]
    lake.append(raw.CLIENTS, rows_of(raw.CLIENTS, now, members))
    evidence = {"cluster": CLUSTER, "consumer_group": "mailer", "topic": "orders"}
    evidence |= {"worst_broker": "broker-a", "worst_queue_id": 3}
    identity = add_incident(
        lake,
        opened,
        evidence=json.dumps({"row": evidence}),
        diagnosis=to_json(DIAGNOSIS),
    )
    sent = {"incident_id": identity, "transition": "FIRING", "channel": CHANNEL, "attempts": 1}
    sent |= {"delivered_at": opened, "transition_at": opened, "status": "DELIVERED"}
    lake.append(alerting.NOTIFICATIONS, [sent])
    with served(application(Store(lake))) as place:
        yield f"http://{place}"


STACKS = ConsumeStacks(
    threads=20,
    stacks=(
        Stack(
            threads=20, state="WAITING", code=(LINE,), frames=(LINE,), frames_left_out=0,
            is_idle=False,
        ),
    ),
    threads_left_out=0,
)  # fmt: skip

DIAGNOSIS = Diagnosis(
    cluster=CLUSTER,
    consumer_group="mailer",
    topic="orders",
    diagnosed_at=board_home.now(),
    clients=(
        ClientStacks(
            client_id=MEMBERS[1],
            client_address=None,
            language="JAVA",
            version="V5_3_3",
            outcome=StackOutcome.REPORTED,
            stacks=STACKS,
        ),
    ),
    clients_left_out=0,
    messages=(
        FirstMessage(
            topic="orders",
            broker="broker-a",
            queue_id=3,
            queue_offset=400,
            outcome=LookupOutcome.KNOWN,
            message=Message(
                topic="orders",
                queue_id=3,
                queue_offset=400,
                msg_id="ID1",
                keys=KEY,
                tags=None,
                reconsume_times=0,
                origin_topic=None,
                origin_msg_id=None,
                born_host="10.0.0.9:1234",
                born_at=board_home.now(),
                stored_at=board_home.now(),
                body_bytes=12,
            ),
        ),
    ),
    queues_left_out=0,
    problems=(),
)


def test_clicks_are_as_documented(address: str) -> None:
    clicks = {}
    size = {"width": 390, "height": 844}
    with browser_page(base_url=address, viewport=size) as page:
        for question, find in QUESTIONS.items():
            page.goto("/")
            hand = Hand(page)
            find(hand)
            clicks[question] = hand.clicks
    assert clicks == documented()
