"""The settings file of data quality: what a good one gives, and the line that each mistake gets."""

import pytest

from assets.quality_settings import read, suites
from expectations.suites import SUITES


def test_without_a_file_every_rule_is_as_declared(tmp_path):
    found, mistakes = read(tmp_path / "quality.yaml")
    assert (found, mistakes) == ([], [])
    assert suites(found) == SUITES


def test_a_file_that_somebody_named_has_to_be_there(tmp_path, monkeypatch):
    missing = tmp_path / "missing.yaml"
    monkeypatch.setenv("TIDEMARK_QUALITY", str(missing))
    assert read(missing) == ([], [f"{missing}: cannot be read: No such file or directory"])


def test_an_entry_changes_what_it_says_of_its_rule_and_nothing_else(tmp_path):
    file = tmp_path / "quality.yaml"
    file.write_text(
        "quality:\n"
        "- {table: raw.brokers, expectation: put_tps_ge_0, mostly: 0.99, severity: block}\n"
        "- {table: raw.queue_offsets, expectation: key_unique, mostly: 0}\n"
        "- {table: progress.groups, expectation: lag_ge_0, mostly: 0.999}\n"
    )
    found, mistakes = read(file)
    assert mistakes == []
    changed = {
        (table, rule.name): (rule.mostly, rule.severity, rule.expected)
        for table, rules in suites(found).items()
        for rule, declared in zip(rules, SUITES[table], strict=True)
        if rule != declared
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
        ("{table: raw.topics, expectation: key_unique}", "mostly or severity is wanted"),
        ("{table: raw.topics, expectation: key_unique, mostly: 1.1}", "mostly: "),
        ("{table: raw.topics, expectation: key_unique, mostly: .nan}", "mostly: "),
        ("{table: raw.topics, expectation: key_unique, most: 1}", "most: unknown field"),
        (
            "{table: raw.topics, expectation: key_unique, severity: warn}",
            "severity: key_unique always sets its rows aside, only mostly can be changed",
        ),
        (
            "{table: raw.topics, expectation: read_queues_ge_0, severity: quarantine}",
            "severity: should be 'block' or 'warn', not 'quarantine'",
        ),
        (
            "{table: progress.groups, expectation: lag_ge_0, severity: block}",
            "severity: lag_ge_0 is asked once an hour, when there is nothing to block",
        ),
        (
            "{table: raw.brokers, expectation: get_tps_ge_0, severity: block}",
            "expectation: raw.brokers.get_tps_ge_0 stands above too",
        ),
    ],
)
def test_a_mistake_is_one_line_and_costs_no_other_entry(tmp_path, entry, mistake):
    file = tmp_path / "quality.yaml"
    good = "{table: raw.brokers, expectation: get_tps_ge_0, mostly: 0.5}"
    file.write_text(f"quality:\n- {good}\n- {entry}\n")
    (kept,), (line,) = read(file)
    assert kept.expectation == "get_tps_ge_0"
    assert line.startswith(f"{file}:3: quality[1]")
    assert mistake in line
    assert "\n" not in line
