"""A board before its first snapshot is computed: live numbers, what happens now, lines to paste."""

import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from fastapi.testclient import TestClient

from tests.support.board_home import CLUSTER
from tests.support.browser import browser_page
from tests.support.live_boards import Live
from tests.support.planned_groups import snapshot
from tests.support.served import served
from tidemark.board.application import application
from tidemark.board.http_responses import ProblemError
from tidemark.board.store import Store
from tidemark.host import stages
from tidemark.host.stages import Step
from tidemark.lake.catalog import Lake
from tidemark.rocketmq.records import QueueOffset, Snapshot
from tidemark.settings.clusters import Cluster

playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")

HTML = {"Accept": "text/html"}


def taken() -> Snapshot:
    result = snapshot("10.0.0.1", "10.0.0.2")
    result.queue_offsets = [
        QueueOffset(broker="broker-a", topic="orders", queue_id=0, min_offset=0, max_offset=1234)
    ]
    return result


class ConfiguredLive(Live):
    names = (CLUSTER,)
    reads = 0

    async def of(self, name: str) -> Snapshot:
        """Respond as a cluster that boots: not yet, at first."""
        self.reads += 1
        if self.reads == 1:
            raise ProblemError(503, "nothing responded")
        return await super().of(name)


def page_of(lake: Lake, *clusters: Cluster, language: str = "en") -> str:
    store = Store(lake)
    store.refresh()
    made = application(store, configured=lambda: clusters)
    client = TestClient(made, base_url="http://127.0.0.1:8080")
    return client.get("/groups", headers=HTML | {"Accept-Language": language}).text


CONFIGURED = Cluster(namesrv=("127.0.0.1:9876",), name=CLUSTER)


@pytest.mark.slow
def test_numbers_are_live_before_anything_is_computed(lake: Lake) -> None:
    made = application(Store(lake))
    made.state.views.live = live = ConfiguredLive(taken())
    with (
        served(made) as place,
        browser_page(base_url=f"http://{place}", may_complain=True) as page,
    ):
        for path in ("/", "/groups"):
            page.goto(path)
            playwright.expect(page.get_by_text(f"Live, not computed: {CLUSTER}")).to_be_visible()
            row = page.locator("tbody tr").first
            playwright.expect(row.get_by_text("billing")).to_be_visible(timeout=30_000)
            playwright.expect(row.get_by_text("1,229")).to_be_visible()
            playwright.expect(page.get_by_text("one snapshot has no rates")).to_be_visible()
            playwright.expect(page.get_by_text("Nothing is computed yet")).to_be_visible()
        before = live.reads
        page.wait_for_event("response", lambda response: "/live" in response.url)
        assert live.reads > before, "it is measured again and again"


@pytest.mark.parametrize("step", Step)
def test_a_start_under_way_is_shown_with_its_usual_time(lake: Lake, step: Step) -> None:
    stages.write(lake.home, step)
    text = page_of(lake, CONFIGURED)
    usual = stages.USUAL_SECONDS[step]
    assert f"The demo is {step}: step {step.number} of {len(Step)}." in text
    assert f"usually {usual} s." in text
    assert "HOST:9876" not in text and "daemon" not in text
    chinese = page_of(lake, CONFIGURED, language="zh")
    assert str(step) not in chinese and f"通常需要 {usual} 秒" in chinese
    stages.clear(lake.home)
    assert "The demo is" not in page_of(lake, CONFIGURED)


def test_a_start_whose_process_has_ended_is_none(lake: Lake) -> None:
    program = (
        "import sys; from tidemark.host import stages; from tidemark.settings.home import Home;"
        "stages.write(Home.of(sys.argv[1]), stages.Step.DAGSTER)"
    )
    subprocess.run([sys.executable, "-c", program, str(lake.home.path)], check=True)
    assert stages.read(lake.home) is None
    assert "The demo is" not in page_of(lake, CONFIGURED)


@pytest.mark.parametrize("clusters", [(), (CONFIGURED,)])
def test_the_line_to_paste_works_in_any_shell(
    lake: Lake, clusters: tuple[Cluster, ...], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    text = page_of(lake, *clusters)
    line = text.partition('<pre tabindex="0">')[2].partition("</pre>")[0]
    assert ("HOST:9876" in line) == (not clusters)
    program, *arguments = shlex.split(line)
    assert arguments[:3] == ["--home", str(lake.home.path), "tick"]
    done = subprocess.run(
        [program, *arguments[2:3], "--help"],
        cwd=tmp_path,
        env={**os.environ, "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stderr) == (0, "")
