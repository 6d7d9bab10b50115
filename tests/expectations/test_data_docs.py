"""Data Docs in a browser, of names that strangers chose."""

import json
import re
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urljoin, urlsplit

import pytest
from fastapi.testclient import TestClient
from pyspark.sql import SparkSession

from expectations import brought_suites
from expectations.adapter import validate
from expectations.data_docs import DataDocs
from expectations.declarations import one_of
from tests.support.browser import browser_page
from tests.support.hostile_names import NAMES
from tests.support.table_rows import frame
from tidemark.board.application import application
from tidemark.board.store import Store
from tidemark.lake.catalog import Lake
from tidemark.lake.tables import TABLES
from tidemark.settings.home import Home
from tidemark.settings.yaml_documents import printable

pytestmark = pytest.mark.spark

TABLE = "progress.groups"
NOT_ANY = "expect_column_values_to_not_be_in_set"
DIVERGENCE = "expect_column_kl_divergence_to_be_less_than"
EQUAL = {"values": list(NAMES), "weights": [1 / len(NAMES)] * len(NAMES)}
RECORDS_ALERTS = "window.alerts = []; window.alert = text => window.alerts.push(text)"


def suite() -> list[dict[str, Any]]:
    """Expectations of a person with the names in all that a page may show of one."""
    names = [
        {
            "type": NOT_ANY,
            "kwargs": {"column": "topic", "value_set": [name]},
            "meta": {"notes": name},
        }
        for name in NAMES
    ]
    names += [
        {
            "type": DIVERGENCE,
            "kwargs": {"column": "topic", "partition_object": EQUAL, "threshold": 0.0},
        },
        {
            "type": "unexpected_rows_expectation",
            "kwargs": {
                "unexpected_rows_query": f"SELECT '{NAMES[1]}' AS x, no_column FROM {{batch}}"
            },
            "description": NAMES[0],
        },
    ]
    return names


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory, spark: SparkSession) -> Path:
    """Data Docs of a validation in which each name is an unexpected value."""
    place = tmp_path_factory.mktemp("hostile-docs")
    (place / f"{TABLE}.json").write_text(json.dumps({"expectations": suite()}))
    brought, mistakes = brought_suites.read(place)
    assert mistakes == []
    rows = [{"at": 0, "topic": name, "consumer_group": name, "health": name} for name in NAMES]
    docs = DataDocs(place / "data_docs")
    validate(
        frame(spark, TABLES[TABLE], rows),
        TABLE,
        expectations=(one_of("health", ("OK",)),),
        brought=brought[TABLE],
        keep=lambda suite, result: docs.keep(suite, result, datetime.now(UTC)),
    )
    return docs.build().parent


@pytest.fixture(params=["validations", "expectations"])
def page(request: pytest.FixtureRequest, site: Path) -> Iterator[Any]:
    """A page of the site."""
    (file,) = (site / request.param).rglob("*.html")
    with browser_page(offline=True) as opened:
        opened.add_init_script(RECORDS_ALERTS)
        opened.goto(file.as_uri())
        yield opened


def test_no_name_becomes_markup(page: Any) -> None:
    assert page.evaluate("window.alerts") == []
    assert page.locator("svg, h1, img[src=x], [onmouseover]").count() == 0
    assert page.locator("a[href^='javascript:']").count() == 0
    assert page.locator("body").inner_text().count("<script>alert(1)</script>") > 1


def test_each_unexpected_value_is_shown_as_text(site: Path) -> None:
    (file,) = (site / "validations").rglob("*.html")
    with browser_page(offline=True) as page:
        page.goto(file.as_uri())
        cells = {
            " ".join(text_content.split())
            for text_content in page.locator("td").all_text_contents()
        }
    for name in NAMES:
        shown = " ".join(printable(line) for line in name.split("\n"))
        assert " ".join(shown.split()) in cells, name


def test_pages_load_nothing(site: Path) -> None:
    """A closed network has no CDN, and a CDN would know who reads the pages."""
    files = [file for file in site.rglob("*.html") if "static" not in file.parts]
    assert len(files) == 3
    for file in files:
        requests: list[str] = []
        with browser_page() as page:
            page.on("request", lambda request, seen=requests: seen.append(request.url))
            page.goto(file.as_uri())
            assert page.locator("link, script, img").count() == 0
            # Styles are in effect: the pages do not show bare lists.
            assert page.locator("body").evaluate("it => getComputedStyle(it).margin") == "0px"
        assert requests == [file.as_uri()]


def test_the_index_names_and_links_each_page(site: Path) -> None:
    with browser_page(offline=True) as page:
        page.goto((site / "index.html").as_uri())
        cells = page.locator("td").all_text_contents()
        links = page.locator("td a").evaluate_all("all => all.map(it => it.href)")
    assert "progress.groups" in {" ".join(cell.split()) for cell in cells}
    assert {Path(unquote(urlsplit(link).path)) for link in links} == {
        *(site / "validations").rglob("*.html"),
        *(site / "expectations").rglob("*.html"),
    }


def test_met_expectations_can_be_hidden(site: Path) -> None:
    (file,) = (site / "validations").rglob("*.html")
    met = ".hide-succeeded-validation-target-child"
    with browser_page(offline=True) as page:
        page.goto(file.as_uri())
        shown = page.locator("td:visible").count()
        page.locator("#failed-only").check()
        assert page.locator("td:visible").count() < shown
        assert page.locator(f"{met}:visible").count() == 0


def test_the_board_serves_every_page_that_another_one_links_to(site: Path) -> None:
    home = Home.of(site.parents[3])
    client = TestClient(
        application(Store(Lake(home), lambda: False)), base_url="http://127.0.0.1:8080"
    )
    seen, waiting = set(), ["/data-docs/index.html"]
    while waiting:
        address = waiting.pop()
        response = client.get(address)
        assert response.status_code == 200, address
        seen.add(address)
        links = re.findall(r'href="([^"#:]+)"', response.text)
        waiting += {urljoin(address, link) for link in links} - seen - set(waiting)
    assert len(seen) == 3, "the index, the suite and its validation"
