"""The settings file of objectives: those of a valid file, and the line of each mistake."""

from datetime import timedelta

import pytest

from tidemark.settings.environment import Settings
from tidemark.settings.objectives import Measure, read


def test_without_a_file_none_is_declared(tmp_path):
    assert read(tmp_path / "objectives.yaml") == ([], [])


def test_a_named_file_has_to_exist(tmp_path, monkeypatch):
    missing = tmp_path / "missing.yaml"
    monkeypatch.setenv("TIDEMARK_OBJECTIVES", str(missing))
    file = Settings.read().objectives_file
    _, mistakes = read(file.path, required=file.required)
    assert mistakes == [f"{missing}: cannot be read: No such file or directory"]


def test_an_objective_bounds_delay_or_lag(tmp_path):
    file = tmp_path / "objectives.yaml"
    file.write_text(
        "objectives:\n"
        "- name: on-time\n"
        '  match: {consumer_group: "orders-*"}\n'
        "  delay: 30s\n"
        "  target: 99.5%\n"
        "  window: 30d\n"
        "- {name: short, match: {}, lag: 1000, target: 0.99, window: 6h}\n"
    )
    (on_time, short), mistakes = read(file)
    assert mistakes == []
    assert on_time.match["consumer_group"] == ("orders-*",)
    assert (on_time.measure, on_time.threshold) == (Measure.DELAY, 30_000)
    assert on_time.budget == pytest.approx(216), "0.5 % of the 43,200 minutes of 30 days"
    assert (short.measure, short.threshold) == (Measure.LAG, 1000)
    assert (short.target, short.window) == (0.99, timedelta(hours=6))


TARGET = "objectives[0].target: a share of the time below 100% is wanted"
GOOD = "name: a, match: {}, delay: 30s, target: 99%, window: 30d"


@pytest.mark.parametrize(
    ("entry", "mistake"),
    [
        (GOOD.replace("name: a, ", ""), "objectives[0].name: missing"),
        (GOOD.replace("name: a", "name: 'a b'"), "objectives[0].name: "),
        (GOOD.replace("delay: 30s, ", ""), "objectives[0]: delay or lag is wanted, and not both"),
        (GOOD + ", lag: 3", "objectives[0]: delay or lag is wanted, and not both"),
        (GOOD.replace("30s", "soon"), "objectives[0].delay: a duration is wanted"),
        (GOOD.replace("99%", "most"), f"{TARGET}, e.g. 99.5%, not 'most'"),
        (GOOD.replace("99%", "99"), f"{TARGET}, e.g. 99.5%, not 99"),
        (GOOD.replace("99%", "100%"), f"{TARGET}, e.g. 99.5%, not '100%'"),
        (GOOD.replace("30d", "90m"), "objectives[0]: a window of whole hours is wanted"),
        (GOOD.replace("30d", "91d"), "objectives[0]: a window of whole hours is wanted"),
    ],
)
def test_a_mistake_is_one_line_and_spares_other_entries(tmp_path, entry, mistake):
    file = tmp_path / "objectives.yaml"
    other = GOOD.replace("name: a", "name: b")
    file.write_text(f"objectives:\n- {{{entry}}}\n- {{{other}}}\n")
    (left,), (line,) = read(file)
    assert left.name == "b"
    assert line.startswith(f"{file}:2: {mistake}")


def test_two_objectives_of_one_name_are_a_mistake(tmp_path):
    file = tmp_path / "objectives.yaml"
    file.write_text(f"objectives:\n- {{{GOOD}}}\n- {{{GOOD}}}\n")
    (one,), (line,) = read(file)
    assert one.name == "a"
    assert line == f"{file}:3: objectives[1].name: 'a' is the name of another"
