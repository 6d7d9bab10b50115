"""Secrets in settings files come from variables."""

import pytest

from tidemark.settings.basics import expanded


def test_a_variable_is_replaced_by_its_value():
    assert expanded("https://x/${KEY}?a=${B_2}", {"KEY": "k", "B_2": "${KEY}"}) == (
        "https://x/k?a=${KEY}"
    )


@pytest.mark.parametrize("environment", [{}, {"KEY": ""}])
def test_a_missing_variable_is_named_without_values(environment):
    with pytest.raises(ValueError, match="the variable KEY is not set"):
        expanded("${OTHER}${KEY}", {"OTHER": "hidden"} | environment)


def test_other_dollars_stay():
    assert expanded("$KEY {KEY} $${", {}) == "$KEY {KEY} $${"
