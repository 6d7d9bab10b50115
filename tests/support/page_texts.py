"""Texts of pages as a reader sees them."""

import html
import json
import re
from typing import Any

from fastapi.testclient import TestClient

HTML = {"Accept": "text/html"}


def page(client: TestClient, path: str, language: str = "en") -> str:
    """Return a page after the tables were read again."""
    client.app.state.store.refresh()  # pyright: ignore
    response = client.get(path, headers=HTML | {"Accept-Language": language})
    assert response.status_code == 200
    return response.text


def words(text: str) -> str:
    """Return the text of HTML as a person reads it."""
    main = re.sub(r"(?s)^.*<main|</main>.*$", "", text)
    return " ".join(re.sub(r"<wbr>|<title>.*?</title>", "", main).split()).replace("> <", "><")


def plain(text: str) -> str:
    return " ".join(re.sub(r"<[^>]*>", " ", words(text)).split())


def drawn(text: str) -> list[dict[str, Any]]:
    """Return what the charts of a page draw, in order."""
    return [json.loads(html.unescape(it)) for it in re.findall(r'data-chart="([^"]*)"', text)]


def names(text: str) -> list[str]:
    matches = re.findall(r'scope="row"[^>]*><a[^>]*><bdi>(.*?)</bdi>', text)
    return [match.replace("<wbr>", "") for match in matches]
