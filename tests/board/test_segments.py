"""A name may hold a slash: it divides no address."""

import asyncio

import pytest

from tidemark.board.middleware import SegmentsMiddleware, part


@pytest.mark.parametrize(
    ("raw", "parts"),
    [
        (b"/groups/lab/a%2Fb", ["groups", "lab", "a/b"]),
        (b"/groups/lab/a%2fb%20c?x=%2F", ["groups", "lab", "a/b c"]),
    ],
)
def test_an_escaped_slash_stays_in_its_part(raw, parts):
    seen = {}

    async def application(scope, receive, send):
        seen.update(scope)

    scope = {"type": "http", "raw_path": raw, "path": "/unescaped"}
    asyncio.run(SegmentsMiddleware(application)(scope, None, None))
    assert [part(item) for item in seen["path"].split("/")[1:]] == parts


def test_an_address_without_one_is_passed_as_it_is():
    seen = []

    async def application(scope, receive, send):
        seen.append(scope)

    scope = {"type": "http", "raw_path": b"/groups", "path": "/groups"}
    asyncio.run(SegmentsMiddleware(application)(scope, None, None))
    assert seen == [scope]
