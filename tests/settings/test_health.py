"""The settings file of health: the overrides of a valid file, and the line of each mistake."""

from datetime import timedelta

import pytest

from tidemark.settings.environment import Settings
from tidemark.settings.health import DEFAULTS, read


def test_without_a_file_all_groups_are_alike(tmp_path):
    assert read(tmp_path / "health.yaml") == ([], [])


def test_a_file_that_somebody_named_has_to_be_there(tmp_path, monkeypatch):
    missing = tmp_path / "missing.yaml"
    monkeypatch.setenv("TIDEMARK_HEALTH", str(missing))
    file = Settings.read().health_file
    assert read(file.path, required=file.required) == (
        [],
        [f"{missing}: cannot be read: No such file or directory"],
    )


def test_omitted_thresholds_keep_their_defaults(tmp_path):
    file = tmp_path / "health.yaml"
    file.write_text(
        "health:\n"
        '- match: {consumer_group: "batch-*"}\n'
        "  standing_for: 2h\n"
        "  rising_steps: 9\n"
        "- match: {}\n"
        "  rise_seconds: 5m\n"
    )
    (batch, others), mistakes = read(file)
    assert mistakes == []
    assert batch.match["consumer_group"] == ("batch-*",)
    assert batch.thresholds.standing_for == timedelta(hours=2)
    assert batch.thresholds.rising_steps == 9
    assert batch.thresholds.known == DEFAULTS.known
    assert others.thresholds.rise_seconds == 300


@pytest.mark.parametrize(
    ("entry", "mistake"),
    [
        ("match: {group: a}", "2: health[0].match.group: unknown field"),
        ("standing: 3", "2: health[0].match: missing"),
        ("{match: {}, standing: 0}", "2: health[0].standing: "),
        ("{match: {}, standing_for: soon}", "2: health[0].standing_for: a duration is wanted"),
        ("just text", "2: health[0]: an entry is a mapping, not text"),
    ],
)
def test_a_mistake_is_one_line_and_spares_other_entries(tmp_path, entry, mistake):
    file = tmp_path / "health.yaml"
    file.write_text(f"health:\n- {entry}\n- match: {{}}\n")
    overrides, (line,) = read(file)
    assert line.startswith(f"{file}:{mistake}")
    assert len(overrides) == 1
