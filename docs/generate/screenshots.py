"""Every page of the board in every size and scheme, and the faults that axe-core finds on it.

``python -m docs.generate.screenshots FOLDER [NAME ...] [--board ADDRESS]`` takes them of the
made-up cluster of the pictures, or of a board that runs. Names choose pages and schemes:
``groups 390 1440-dark``; without any all are taken. It prints serious faults and pages that are
wider than their window, and ends with 1 if there is one.
"""

import argparse
import json
import shutil
import sys
import tempfile
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from playwright.sync_api import Browser, sync_playwright

from bench.made_up import CLUSTER
from docs.generate import scene
from docs.generate.pictures import opened, served
from tidemark.lake.catalog import Lake
from tidemark.settings.home import Home

SCHEMES: dict[str, tuple[tuple[int, int], dict[str, Any]]] = {
    "1440": ((1440, 900), {}),
    "1024": ((1024, 768), {}),
    "390": ((390, 844), {}),
    "1440-dark": ((1440, 900), {"color_scheme": "dark"}),
    "390-dark": ((390, 844), {"color_scheme": "dark"}),
    "1440-chinese": ((1440, 900), {"locale": "zh-CN"}),
    "390-chinese": ((390, 844), {"locale": "zh-CN"}),
}


AXE = Path(__file__).parents[2] / "tests" / "board" / "vendor" / "axe-4.11.0.min.js"
FAULTS = """async () => {
    const found = await axe.run(document, {resultTypes: ["violations"]});
    return found.violations
        .filter((each) => ["serious", "critical"].includes(each.impact))
        .map((each) => `${each.id}: ${each.nodes.map((node) => node.target).join(" | ")}`);
}"""
TOO_WIDE = "document.documentElement.scrollWidth - document.documentElement.clientWidth"

LISTS = ("groups", "incidents", "dead-letters", "topics", "brokers", "audit", "quality")


def pages(written: scene.Scene) -> dict[str, str]:
    """Return the address of every page of the made-up cluster by its name."""
    made_up = written.made_up
    group = f"/group?cluster={CLUSTER}&group={made_up.name(0)}&topic={made_up.topic(0)}"
    return {
        "overview": "/",
        **{name: f"/{name}" for name in LISTS},
        "group": f"{group}&range=6h",
        "blocked": f"/group?cluster={CLUSTER}&group={scene.LONG_GROUP}",
        "incident": f"/incident?id={written.stalled}",
        "differing": f"/incident?id={written.differing}",
        "topic": f"/topic?cluster={CLUSTER}&topic={made_up.topic(0)}",
        "broker": f"/broker?cluster={CLUSTER}&broker=broker-a",
        "events": "/events",
        "not-found": "/group?cluster=shop&group=nobody",
        "too-early": "/groups?at=2026-01-01T00:00:00Z",
    }


def pages_of(board: str) -> dict[str, str]:
    """Return the address of every page of a board that runs, with the first of each list."""
    result = {"overview": "/", **{name: f"/{name}" for name in LISTS}, "events": "/events"}
    if group := _first(board, "groups?sort=-delay_ms"):
        names = {"cluster": group["cluster"], "group": group["consumer_group"]}
        result["group"] = f"/group?{urlencode(names | {'topic': group['topic']})}"
        of_topic = {"cluster": group["cluster"], "topic": group["topic"]}
        result["topic"] = f"/topic?{urlencode(of_topic)}"
    if incident := _first(board, "incidents?state=open"):
        result["incident"] = f"/incident?id={incident['incident_id']}"
    return result


def _first(board: str, path: str) -> Mapping[str, Any] | None:
    with urllib.request.urlopen(f"{board}/api/v1/{path}") as response:
        items = json.load(response)["items"]
    return items[0] if items else None


@contextmanager
def made_up_board() -> Iterator[tuple[str, dict[str, str]]]:
    """Serve the made-up cluster; yield its address and pages."""
    with tempfile.TemporaryDirectory(prefix="tidemark-screenshots-") as place:
        lake = Lake(Home.of(place))
        addresses = pages(scene.write(lake))
        with served(lake) as address:
            yield address, addresses


@contextmanager
def running_board(board: str) -> Iterator[tuple[str, dict[str, str]]]:
    """Yield the address and the pages of a board that somebody else serves."""
    yield board, pages_of(board)


def take(browser: Browser, address: str, file: Path, scheme: str) -> list[str]:
    """Take a picture of a page and return its faults."""
    size, chosen = SCHEMES[scheme]
    with opened(browser, address, size, chosen) as page:
        page.screenshot(path=file, full_page=True)
        wider = page.evaluate(TOO_WIDE)
        # Past the policy that forbids scripts in pages.
        page.evaluate(AXE.read_text(encoding="utf-8"))
        faults = page.evaluate(FAULTS)
    return [*faults, *([f"{wider} px wider than the window"] if wider > 0 else [])]


def main() -> None:
    """Take the pictures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--board", default="", help="address of a board that runs")
    given = parser.parse_args()
    given.folder.mkdir(parents=True, exist_ok=True)
    board = running_board(given.board.rstrip("/")) if given.board else made_up_board()
    count = 0
    with board as (address, addresses), sync_playwright() as started:
        browser = started.chromium.launch(
            executable_path=shutil.which("chromium"), args=["--no-sandbox"]
        )
        wanted = [name for name in addresses if name in given.names] or list(addresses)
        for scheme in [name for name in SCHEMES if name in given.names] or list(SCHEMES):
            for name in wanted:
                file = given.folder / f"{name}-{scheme}.png"
                faults = take(browser, address + addresses[name], file, scheme)
                count += len(faults)
                for fault in faults:
                    sys.stdout.write(f"{name} {scheme}: {fault}\n")
        browser.close()
    sys.stdout.write(f"{count} serious faults by axe-core, or pages wider than their window\n")
    sys.exit(1 if count else 0)


if __name__ == "__main__":
    main()
