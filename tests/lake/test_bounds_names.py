"""Names in an SQL text: a word in a literal is no column, and case does not matter."""

import pytest

from tidemark.lake.bounds import names_in


@pytest.mark.parametrize(
    ("sql", "names"),
    [
        ("lag > 5 AND NOT online", {"lag", "5", "and", "not", "online"}),
        ("Lag_Growth > 0", {"lag_growth", "0"}),
        ("topic = 'lag_growth' OR lag=1", {"topic", "or", "lag", "1"}),
        (r"topic = 'it\'s lag' AND dlq_messages > 0", {"topic", "and", "dlq_messages", "0"}),
        ("topic = 'it''s lag' AND `delay_ms` > 0", {"topic", "and", "delay_ms", "0"}),
        ("max_queue_lag", {"max_queue_lag"}),
        ("", set()),
    ],
)
def test_names_are_words_outside_of_literals(sql: str, names: set[str]) -> None:
    assert names_in(sql) == names
