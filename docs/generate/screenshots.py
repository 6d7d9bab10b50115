"""Every page of the board in every size and scheme, to compare before and after a change.

``python -m docs.generate.screenshots FOLDER [NAME ...]`` takes them of the made-up cluster of the
pictures. Names choose pages and schemes: ``groups 390 1440-dark``; without any all are taken.
"""

import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

from playwright.sync_api import sync_playwright

from bench.made_up import CLUSTER
from docs.generate import scene
from docs.generate.pictures import picture, served
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


def pages(written: scene.Scene) -> dict[str, str]:
    """Return the address of every page by its name."""
    made_up = written.made_up
    group = f"/group?cluster={CLUSTER}&group={made_up.name(0)}&topic={made_up.topic(0)}"
    return {
        "overview": "/",
        "groups": "/groups",
        "group": f"{group}&range=6h",
        "blocked": f"/group?cluster={CLUSTER}&group={scene.LONG_GROUP}",
        "incidents": "/incidents",
        "incident": f"/incident?id={written.stalled}",
        "differing": f"/incident?id={written.differing}",
        "dead-letters": "/dead-letters",
        "topics": "/topics",
        "topic": f"/topic?cluster={CLUSTER}&topic={made_up.topic(0)}",
        "brokers": "/brokers",
        "quality": "/quality",
        "events": "/events",
        "not-found": "/group?cluster=shop&group=nobody",
        "too-early": "/groups?at=2026-01-01T00:00:00Z",
    }


def main() -> None:
    """Take the pictures."""
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="tidemark-screenshots-") as place:
        lake = Lake(Home.of(place))
        addresses = pages(scene.write(lake))
        names = sys.argv[2:]
        wanted = [name for name in addresses if name in names] or list(addresses)
        schemes = {name: value for name, value in SCHEMES.items() if name in names} or SCHEMES
        with served(lake) as address, sync_playwright() as started:
            browser = started.chromium.launch(
                executable_path=shutil.which("chromium"), args=["--no-sandbox"]
            )
            for scheme, (size, chosen) in schemes.items():
                for name in wanted:
                    file = folder / f"{name}-{scheme}.png"
                    picture(browser, address + addresses[name], file, size, chosen, whole=True)
            browser.close()


if __name__ == "__main__":
    main()
