"""The pictures of the board in README and docs, taken of a made-up cluster.

``python -m docs.generate.pictures [FOLDER]`` writes that cluster's home, serves it and takes each
picture with Chromium. The one in Chinese needs a font, such as Debian's fonts-wqy-microhei.
"""

import shutil
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import uvicorn
from playwright.sync_api import Browser, sync_playwright

from alerting.delivery.silences import silence
from bench.made_up import CLUSTER, MadeUp, incident, notification, now
from board.application import application
from board.store import Store
from lab.layout import free_port_base
from lake.catalog import Lake
from lake.tables import alerting
from settings.home import Home

FOLDER = Path(__file__).parent.parent / "pictures"
WIDE, PHONE = (1280, 800), (390, 844)


def main() -> None:
    """Take all pictures."""
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="tidemark-pictures-") as place:
        lake = Lake(Home.of(place))
        made_up = MadeUp(12, 2, 10, 8, days=2, queue_days=0.3, end=now())
        made_up.write(lake)
        notified = add_incidents(lake, made_up)
        with served(lake) as address:
            take(address, folder, made_up, notified)


def add_incidents(lake: Lake, made_up: MadeUp) -> str:
    """Add incidents, notifications and silences; return the id of the most severe incident."""
    lag = made_up.lag(0)
    reason = f"broker-a/0: commit stays at 3000000, {lag // 16} unconsumed messages; and 15 more"
    row = {"lag": lag, "readable_lag": lag, "delay_ms": 2_460_000, "health_reason": reason}
    row |= {"worst_broker": "broker-b", "worst_queue_id": 7, "max_queue_lag": lag // 11}
    stalled = incident(
        made_up, 0, "stalled", 38, last_value=lag, peak_value=lag, threshold=0, row=row
    )
    behind = incident(
        made_up,
        1,
        "falling-behind",
        150,
        kind="falling_behind",
        last_value=made_up.lag(1),
        severity="warning",
        state="ACKNOWLEDGED",
        acknowledged_at=made_up.ago(120),
        acknowledged_by="lin",
        acknowledge_reason="two more members are on their way",
    )
    rewound = incident(
        made_up,
        3,
        "rewound",
        253,
        kind="rewound",
        last_value=330_233,
        severity="warning",
        state="RESOLVED",
        resolved_at=made_up.ago(221),
        transitions=[
            {"transition": "FIRING", "at": made_up.ago(251)},
            {"transition": "RESOLVED", "at": made_up.ago(221)},
        ],
    )
    unknown = incident(made_up, 2, "collection-incomplete", 90, severity="info",
                       kind="collection_incomplete")  # fmt: skip
    rows = [stalled, behind, rewound, unknown]
    lake.append(alerting.INCIDENTS, rows)  # pyright: ignore[reportArgumentType]
    second = timedelta(seconds=4)
    lake.append(
        alerting.NOTIFICATIONS,
        [
            notification(stalled, "chat (team billing)", made_up.ago(36) + second),
            notification(stalled, "pager (first line)", made_up.ago(36) + 2 * second, attempts=2),
            notification(stalled, "pager (second line)", made_up.ago(21) + second),
            notification(behind, "chat (team checkout)", made_up.ago(148) + second),
        ],
    )
    globs = {"cluster": (CLUSTER,), "topic": ("stock*",)}
    start = made_up.end + timedelta(hours=9)
    until = start + timedelta(hours=2)
    silence(lake.shared, globs, until, "kim", "move of the warehouse database", starts_at=start)
    return str(stalled["incident_id"])


@contextmanager
def served(lake: Lake) -> Iterator[str]:
    """Serve a home while the context is open; yield its address."""
    port = free_port_base()
    config = uvicorn.Config(
        application(Store(lake), person="lin"),
        port=port,
        log_level="warning",
        timeout_graceful_shutdown=1,
    )
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started:
        time.sleep(0.05)
    yield f"http://127.0.0.1:{port}"
    server.should_exit = True
    thread.join(timeout=30)


def take(address: str, folder: Path, made_up: MadeUp, worst: str) -> None:
    """Take every picture of a board."""
    group = f"/group?cluster={CLUSTER}&group={made_up.name(0)}&topic={made_up.topic(0)}&range=6h"
    with sync_playwright() as started:
        browser = started.chromium.launch(
            executable_path=shutil.which("chromium"), args=["--no-sandbox"]
        )
        for name, path, size, chosen in (
            ("overview", "/", WIDE, {}),
            ("groups", "/groups", WIDE, {}),
            ("group", group, (1280, 1160), {}),
            ("incident", f"/incident?id={worst}", (1280, 1250), {}),
            ("dark", group, (1280, 1160), {"color_scheme": "dark"}),
            ("chinese", "/", WIDE, {"locale": "zh-CN"}),
            ("phone", group, PHONE, {"device_scale_factor": 2}),
        ):
            _picture(browser, f"{address}{path}", folder / f"board-{name}.png", size, chosen)
        browser.close()


def _picture(
    browser: Browser, address: str, file: Path, size: tuple[int, int], chosen: dict[str, Any]
) -> None:
    options: dict[str, Any] = {"locale": "en-GB", "color_scheme": "light"} | chosen
    context = browser.new_context(viewport={"width": size[0], "height": size[1]}, **options)
    page = context.new_page()
    page.goto(address)
    page.wait_for_function("!document.querySelector('figure[data-chart]:not(.drawn)')")
    page.screenshot(path=file)
    context.close()


if __name__ == "__main__":
    main()
