"""HEAD at every address that responds to GET."""

import pytest
from fastapi.testclient import TestClient


@pytest.mark.parametrize("path", ["/healthz", "/readyz", "/metrics", "/", "/api/v1/groups"])
def test_head_is_get_without_a_body(reader: TestClient, path: str) -> None:
    """Load balancers and `wget --spider` request it; they were refused with 405."""
    got, head = reader.get(path), reader.head(path)
    assert head.status_code == got.status_code == 200
    assert head.content == b"" and got.content
    assert head.headers["content-type"] == got.headers["content-type"]


def test_head_where_there_is_nothing(reader: TestClient) -> None:
    assert reader.head("/api/v1/incidents/none").status_code == 404
    assert reader.head("/api/v1/plan").status_code == 405
