"""The settings file of capacity: the overrides of a valid file, and the line of each mistake."""

import pytest

from tidemark.settings.environment import Settings
from tidemark.settings.owners import Machine, read_machines


def test_without_a_file_all_groups_share_a_machine(tmp_path):
    assert read_machines(tmp_path / "capacity.yaml") == ([], [])


def test_a_named_file_has_to_exist(tmp_path, monkeypatch):
    missing = tmp_path / "missing.yaml"
    monkeypatch.setenv("TIDEMARK_CAPACITY", str(missing))
    file = Settings.read().capacity_file
    _, mistakes = read_machines(file.path, required=file.required)
    assert mistakes == [f"{missing}: cannot be read: No such file or directory"]


def test_entries_state_cores_and_computing_time(tmp_path):
    file = tmp_path / "capacity.yaml"
    file.write_text(
        "capacity:\n"
        '- match: {consumer_group: "batch-*"}\n'
        "  cores: 8\n"
        "  compute_share: 0.2\n"
        "- match: {}\n"
        "  compute_ms: 5\n"
    )
    (batch, others), mistakes = read_machines(file)
    assert mistakes == []
    assert batch.match["consumer_group"] == ("batch-*",)
    assert (batch.machine, others.machine) == (Machine(8, None, 0.2), Machine(None, 5, None))


@pytest.mark.parametrize(
    ("entry", "mistake"),
    [
        ("cores: 3", "2: capacity[0].match: missing"),
        ("{match: {}, cores: 0}", "2: capacity[0].cores: "),
        ("{match: {}, compute_share: 20}", "2: capacity[0].compute_share: "),
        ("{match: {}, compute_ms: 2, compute_share: 0.2}", "2: capacity[0]: "),
    ],
)
def test_a_mistake_is_one_line_and_spares_other_entries(tmp_path, entry, mistake):
    file = tmp_path / "capacity.yaml"
    file.write_text(f"capacity:\n- {entry}\n- match: {{}}\n")
    machine_overrides, (line,) = read_machines(file)
    assert line.startswith(f"{file}:{mistake}")
    assert len(machine_overrides) == 1
