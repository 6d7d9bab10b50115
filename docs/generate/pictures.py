"""The pictures of the board in README and docs, taken of a made-up cluster.

``python -m docs.generate.pictures [FOLDER]`` writes that cluster's home, serves it and takes each
picture with Chromium. The one in Chinese needs a font, such as Debian's fonts-wqy-microhei.
"""

import shutil
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import uvicorn
from playwright.sync_api import Browser, Page, sync_playwright

from bench.made_up import CLUSTER
from docs.generate import scene
from tidemark.board.application import application
from tidemark.board.store import Store
from tidemark.lab.layout import free_port_base
from tidemark.lake.catalog import Lake
from tidemark.settings.home import Home

FOLDER = Path(__file__).parent.parent / "pictures"
WIDE, PHONE = (1280, 800), (390, 844)


def main() -> None:
    """Take all pictures."""
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="tidemark-pictures-") as place:
        lake = Lake(Home.of(place))
        written = scene.write(lake)
        with served(lake) as address:
            take(address, folder, written)


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


def take(address: str, folder: Path, written: scene.Scene) -> None:
    """Take every picture of a board."""
    made_up = written.made_up
    group = f"/group?cluster={CLUSTER}&group={made_up.name(0)}&topic={made_up.topic(0)}&range=6h"
    with sync_playwright() as started:
        browser = started.chromium.launch(
            executable_path=shutil.which("chromium"), args=["--no-sandbox"]
        )
        for name, path, size, chosen in (
            ("overview", "/", WIDE, {}),
            ("groups", "/groups", WIDE, {}),
            ("group", group, (1280, 1160), {}),
            ("incident", f"/incident?id={written.stalled}", (1280, 1250), {}),
            ("dark", group, (1280, 1160), {"color_scheme": "dark"}),
            ("chinese", "/", WIDE, {"locale": "zh-CN"}),
            ("phone", group, PHONE, {"device_scale_factor": 2}),
        ):
            picture(browser, f"{address}{path}", folder / f"board-{name}.png", size, chosen)
        browser.close()


def picture(
    browser: Browser, address: str, file: Path, size: tuple[int, int], chosen: Mapping[str, Any]
) -> None:
    """Take a picture of what a window shows of a page."""
    with opened(browser, address, size, chosen) as page:
        page.screenshot(path=file)


@contextmanager
def opened(
    browser: Browser, address: str, size: tuple[int, int], chosen: Mapping[str, Any]
) -> Iterator[Page]:
    """Open a page in a window of its own; yield it when its charts are drawn."""
    options: dict[str, Any] = {"locale": "en-GB", "color_scheme": "light", **chosen}
    context = browser.new_context(viewport={"width": size[0], "height": size[1]}, **options)
    page = context.new_page()
    page.goto(address)
    page.wait_for_function("!document.querySelector('figure[data-chart]:not(.drawn)')")
    yield page
    context.close()


if __name__ == "__main__":
    main()
