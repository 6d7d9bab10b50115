"""Numbers from the environment."""

import pytest

from lake.settings import whole_number


@pytest.mark.parametrize(("text", "number"), [(None, 10), ("", 10), ("1", 1), (" 30 ", 30)])
def test_a_whole_number_from_one_on(monkeypatch, text, number):
    if text is not None:
        monkeypatch.setenv("TIDEMARK_HOLE_MINUTES", text)
    assert whole_number("TIDEMARK_HOLE_MINUTES", 10) == number


@pytest.mark.parametrize("text", ["0", "-1", "1.5", "ten", "1e3"])
def test_anything_else_is_told_in_one_line(monkeypatch, text):
    monkeypatch.setenv("TIDEMARK_HOLE_MINUTES", text)
    with pytest.raises(SystemExit) as ended:
        whole_number("TIDEMARK_HOLE_MINUTES", 10)
    told = str(ended.value)
    assert "TIDEMARK_HOLE_MINUTES" in told and repr(text) in told and "\n" not in told
