"""SECURITY.md: each promise names a test that is there."""

import re

from tests.support.checkout import ROOT

TEXT = (ROOT / "SECURITY.md").read_text()


def test_every_promise_names_tests_that_exist():
    (table,) = re.findall(r"(?s)\| promise \| test \|\n\|---\|---\|\n(.*?)\n\n", TEXT)
    rows = [line.strip("| ").split(" | ") for line in table.splitlines()]
    assert len(rows) > 20
    for promise, tests in rows:
        named = re.findall(r"`(tests/[\w/]+\.py)::(test_\w+)`", tests)
        assert named, promise
        for file, test in named:
            text = (ROOT / file).read_text()
            assert re.search(rf"(?m)^(?:async )?def {test}\(", text), f"{file}::{test}"


def test_images_can_be_given_by_digest():
    """The page states how; by default they are named by tag."""
    deploy = ROOT / "deploy"
    assert "ARG BASE=" in (deploy / "Containerfile").read_text()
    compose = (deploy / "compose.yaml").read_text()
    assert "${POSTGRES_IMAGE:-" in compose and "${S3_IMAGE:-" in compose
    helper = (deploy / "helm" / "tidemark" / "templates" / "_helpers.tpl").read_text()
    assert ".Values.image.digest" in helper
