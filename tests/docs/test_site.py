"""The documentation site builds strictly and needs no network."""

import os
import re
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest

from docs.generate.pages import pages

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)]
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    built = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert built.returncode == 0, built.stderr
    return folder


def test_site_has_written_and_generated_pages(site: Path) -> None:
    written = [file.relative_to(ROOT / "docs").as_posix() for file in (ROOT / "docs").rglob("*.md")]
    missing = [
        page for page in [*written, *pages()] if not (site / page).with_suffix(".html").is_file()
    ]
    assert missing == []


def test_every_page_names_its_version(site: Path) -> None:
    name = f"Tidemark {version('tidemark')}"
    titles = [re.findall(r"<title>(.*?)</title>", it.read_text()) for it in site.rglob("*.html")]
    assert len(titles) > 20
    assert [title for title in titles if not title[0].endswith(name)] == []


def test_pages_load_nothing_from_elsewhere(site: Path) -> None:
    loaded = [
        address
        for page in site.rglob("*.html")
        for address in re.findall(
            r"<(?:script|img|iframe|link)\b[^>]*?(?:src|href)=[\"']?([^\"'\s>]+)", page.read_text()
        )
    ]
    assert len(loaded) > 100
    assert [address for address in loaded if re.match(r"(https?:)?//", address)] == []


def test_site_holds_no_source_of_the_generator(site: Path) -> None:
    assert not [*site.rglob("*.py")]
