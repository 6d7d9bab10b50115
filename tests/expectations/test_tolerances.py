"""The settings file of data quality: its effect, and the line of each mistake."""

import pytest

from expectations.audit_suites import AUDIT_EXPECTATIONS
from expectations.tolerances import read, suites
from tidemark.settings.environment import Settings


def test_without_a_file_expectations_are_as_declared(tmp_path):
    tolerances, mistakes = read(tmp_path / "quality.yaml")
    assert (tolerances, mistakes) == ([], [])
    assert suites(tolerances) == AUDIT_EXPECTATIONS


def test_file_that_the_environment_names_must_exist(tmp_path, monkeypatch):
    missing = tmp_path / "missing.yaml"
    monkeypatch.setenv("TIDEMARK_QUALITY", str(missing))
    file = Settings.read().quality_file
    assert read(file.path, required=file.required) == (
        [],
        [f"{missing}: cannot be read: No such file or directory"],
    )


def test_entry_changes_only_the_fields_that_it_sets(tmp_path):
    file = tmp_path / "quality.yaml"
    file.write_text(
        "quality:\n"
        "- {table: raw.brokers, expectation: put_tps_ge_0, mostly: 0.99, severity: block}\n"
        "- {table: raw.queue_offsets, expectation: key_unique, mostly: 0}\n"
        "- {table: progress.groups, expectation: lag_ge_0, mostly: 0.999}\n"
    )
    tolerances, mistakes = read(file)
    assert mistakes == []
    changed = {
        (table, expectation.name): (expectation.mostly, expectation.severity, expectation.expected)
        for table, configured in suites(tolerances).items()
        for expectation, declared in zip(configured, AUDIT_EXPECTATIONS[table], strict=True)
        if expectation != declared
    }
    same = "another row has the same snapshot_id, broker, topic, queue_id"
    assert changed == {
        ("raw.brokers", "put_tps_ge_0"): (0.99, "block", "at most 1% of rows where put_tps < 0"),
        ("raw.queue_offsets", "key_unique"): (
            0.0,
            "quarantine",
            f"at most 100% of rows where {same}",
        ),
        ("progress.groups", "lag_ge_0"): (0.999, "warn", "at most 0.1% of rows where lag < 0"),
    }


@pytest.mark.parametrize(
    ("entry", "mistake"),
    [
        ("{table: raw.broker, expectation: a, mostly: 1}", "table: no table 'raw.broker', there"),
        (
            "{table: raw.topics, expectation: perm, mostly: 1}",
            "expectation: raw.topics has no expectation 'perm', it has snapshot_id_not_null, ",
        ),
        ("{table: raw.topics, expectation: key_unique}", "mostly or severity is required"),
        ("{table: raw.topics, expectation: key_unique, mostly: 1.1}", "mostly: "),
        ("{table: raw.topics, expectation: key_unique, mostly: .nan}", "mostly: "),
        ("{table: raw.topics, expectation: key_unique, most: 1}", "most: unknown field"),
        (
            "{table: raw.topics, expectation: key_unique, severity: warn}",
            "severity: key_unique always quarantines its rows, only mostly can be changed",
        ),
        (
            "{table: raw.topics, expectation: read_queues_ge_0, severity: quarantine}",
            "severity: should be 'block' or 'warn', not 'quarantine'",
        ),
        (
            "{table: progress.groups, expectation: lag_ge_0, severity: block}",
            "severity: lag_ge_0 is validated once an hour, when there is nothing to block",
        ),
        (
            "{table: raw.brokers, expectation: get_tps_ge_0, severity: block}",
            "expectation: raw.brokers.get_tps_ge_0 has an entry above",
        ),
    ],
)
def test_mistake_is_one_line_and_affects_no_other_entry(tmp_path, entry, mistake):
    file = tmp_path / "quality.yaml"
    good = "{table: raw.brokers, expectation: get_tps_ge_0, mostly: 0.5}"
    file.write_text(f"quality:\n- {good}\n- {entry}\n")
    (valid,), (line,) = read(file)
    assert valid.expectation == "get_tps_ge_0"
    assert line.startswith(f"{file}:3: quality[1]")
    assert mistake in line
    assert "\n" not in line
