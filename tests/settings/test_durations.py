"""The grammar of durations, and that every place accepts all of it."""

import pytest

from tidemark.alerting.rules.files import valid_rules
from tidemark.settings.clusters import configured
from tidemark.settings.health import read
from tidemark.settings.home import Home
from tidemark.settings.times import in_words, positive_seconds, seconds

LENGTHS = {
    "90s": 90,
    "10": 10,
    "1.5": 1.5,
    "5m": 300,
    "1.5m": 90,
    "2h": 7200,
    "1d": 86_400,
    " 5 s ": 5,
}


@pytest.mark.parametrize(("text", "expected"), LENGTHS.items())
def test_a_duration_in_seconds(text, expected):
    assert seconds(text) == positive_seconds(text) == expected


@pytest.mark.parametrize("number", [10, 1.5])
def test_a_number_counts_seconds(number):
    assert seconds(number) == number


@pytest.mark.parametrize(
    "value", ["", "s", "-1s", "10 days", "1e3", "nan", "10s10s", None, True, -1, float("inf"), [1]]
)
def test_what_is_no_duration(value):
    with pytest.raises(ValueError, match=r"a duration is wanted, e\.g\. 90s, 5m, 2h or 1d, not "):
        seconds(value)


def test_the_longest_duration():
    assert seconds("365d") == 365 * 86_400
    with pytest.raises(ValueError, match="at most 365d is wanted, not '366d'"):
        seconds("366d")


@pytest.mark.parametrize("text", ["0", "0s", "0.0h"])
def test_nothing_is_a_duration_only_where_it_may_be(text):
    assert seconds(text) == 0
    with pytest.raises(ValueError, match="a duration is wanted"):
        positive_seconds(text)


@pytest.mark.parametrize("text", ["90", "90s", "1.5m", "2h", "1d"])
def test_every_settings_file_takes_the_same_durations(tmp_path, text):
    (tmp_path / "clusters.yaml").write_text(
        f"clusters:\n- {{name: a, namesrv: 'a:1', every: {text}, deep_every: {text}}}\n"
    )
    (cluster,) = configured(Home.of(tmp_path))
    assert cluster.every == cluster.deep_every == seconds(text)
    health = tmp_path / "health.yaml"
    health.write_text(f"health:\n- {{match: {{}}, rise_seconds: {text}}}\n")
    (override,), mistakes = read(health)
    assert mistakes == [] and override.thresholds.rise_seconds == seconds(text)
    rules = tmp_path / "rules.yaml"
    rules.write_text(f"rules:\n- {{name: late, kind: collection_late, threshold: {text}}}\n")
    (rule,), mistakes = valid_rules(rules)
    assert mistakes == [] and rule.threshold == seconds(text)


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(-90, "-1 m 30 s"), (0.02, "20 ms"), (59.96, "60 s"), (60, "1 m"), (86_400 * 2 + 61, "2 d")],
)
def test_a_duration_in_words(seconds, words):
    assert in_words(seconds) == words


def test_no_duration_has_no_words():
    with pytest.raises(ValueError, match="no duration"):
        in_words(float("nan"))
