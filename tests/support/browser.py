"""A real browser for tests of pages; without one such a test is skipped."""

import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pytest

SECONDS = 60
"""How long a page may take at most."""

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")


@contextmanager
def browser_page(
    *, may_complain: bool = False, arguments: Sequence[str] = (), **options: Any
) -> Iterator[Any]:
    """Yield a page of Chromium.

    Args:
        may_complain: whether it may log errors to its console, as a page does whose style sheets
            cannot be fetched.
        arguments: further ones of Chromium.
        options: of Playwright's context, such as ``base_url``.
    """
    playwright = pytest.importorskip(
        "playwright.sync_api", reason="playwright is not installed"
    ).sync_playwright
    if CHROMIUM is None:
        pytest.skip("no Chromium: apt-get install chromium runs the tests of pages")
    complaints: list[str] = []
    with playwright() as started:
        browser = started.chromium.launch(
            executable_path=CHROMIUM, args=["--no-sandbox", *arguments]
        )
        context = browser.new_context(locale="en-GB", **options)
        context.set_default_timeout(SECONDS * 1000)
        page = context.new_page()
        page.on(
            "console",
            lambda message: complaints.append(message.text) if message.type == "error" else 0,
        )
        page.on("pageerror", lambda error: complaints.append(str(error)))
        yield page
        browser.close()
    assert may_complain or complaints == []
