"""Suites that people bring: the files read of a folder, and the line of each mistake."""

import json
from pathlib import Path

import pytest

from assets.quality import audit_checks, tick_checks
from expectations.brought_suites import AUDIT_CHECK, TICK_CHECK, read
from tidemark.settings.environment import Settings

LAG = {"type": "expect_column_values_to_be_between", "kwargs": {"column": "lag", "max_value": 9}}
GOOD = {"type": "expect_column_values_to_not_be_null", "kwargs": {"column": "topic"}}


def put(folder: Path, name: str, *expectations: object) -> Path:
    """Write a suite as JSON."""
    file = folder / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps({"name": "x", "expectations": expectations}, indent=2))
    return file


def test_without_a_folder_nobody_brings_a_suite(tmp_path: Path) -> None:
    assert read(tmp_path / "expectations") == ({}, [])


def test_folder_that_the_environment_names_must_exist(tmp_path: Path, monkeypatch) -> None:
    missing = tmp_path / "missing"
    monkeypatch.setenv("TIDEMARK_EXPECTATIONS", str(missing))
    folder = Settings.read().expectations_folder
    assert read(folder.path, required=folder.required) == (
        {},
        [f"{missing}: is no folder; put suites into it as TABLE.json or TABLE.py"],
    )


def test_no_expectation_is_named_as_the_check_of_a_table() -> None:
    for checks, own in ((audit_checks({}), AUDIT_CHECK), (tick_checks({})[0], TICK_CHECK)):
        of_table: dict[object, set[str]] = {}
        for spec in checks.check_specs:
            of_table.setdefault(spec.asset_key, set()).add(spec.name)
        assert of_table and all(own in names for names in of_table.values())


def test_suite_that_a_file_context_adds_is_read(tmp_path: Path) -> None:
    import great_expectations as gx
    import great_expectations.expectations as gxe

    context = gx.get_context(mode="file", project_root_dir=tmp_path / "elsewhere")
    suite = gx.ExpectationSuite("progress.groups")
    suite.add_expectation(
        gxe.ExpectColumnValuesToBeBetween(
            column="lag", max_value=1000, mostly=0.9, meta={"name": "lag_is_small"}
        )
    )
    suite.add_expectation(gxe.ExpectTableRowCountToBeBetween(min_value=1))
    context.suites.add(suite)

    brought_expectations, mistakes = read(tmp_path / "elsewhere" / "gx" / "expectations")

    assert mistakes == []
    assert list(brought_expectations) == ["progress.groups"]
    assert [
        (brought_expectation.name, brought_expectation.severity, brought_expectation.mostly)
        for brought_expectation in brought_expectations["progress.groups"]
    ] == [
        ("lag_is_small", "warn", 0.9),
        ("expect_table_row_count_to_be_between", "warn", 1.0),
    ]
    assert brought_expectations["progress.groups"][1].expected == (
        "expect_table_row_count_to_be_between(min_value=1)"
    )


@pytest.mark.parametrize(
    "ends",
    ["", "def suite():\n    return made\n", "made = [made]\ndef suite():\n    return made[0]\n"],
    ids=["variable", "both", "function"],
)
def test_python_file_makes_a_suite(tmp_path: Path, ends: str) -> None:
    (tmp_path / "raw.queue_offsets.py").write_text(
        "import great_expectations as gx\n"
        "import great_expectations.expectations as gxe\n"
        "made = gx.ExpectationSuite('mine')\n"
        "for column in ('min_offset', 'max_offset'):\n"
        "    made.add_expectation(gxe.ExpectColumnValuesToBeBetween(\n"
        "        column=column, max_value=10**12, meta={'severity': 'block'}))\n" + ends
    )

    brought_expectations, mistakes = read(tmp_path)

    assert mistakes == []
    assert [
        (brought_expectation.name, brought_expectation.severity)
        for brought_expectation in brought_expectations["raw.queue_offsets"]
    ] == [
        ("expect_column_values_to_be_between_min_offset", "block"),
        ("expect_column_values_to_be_between_max_offset", "block"),
    ]


def test_expectation_that_data_docs_cannot_store_is_a_mistake(tmp_path: Path) -> None:
    """An audit stores each expectation as JSON; it would end there."""
    file = tmp_path / "progress.groups.py"
    file.write_text(
        "from datetime import date\n"
        "import great_expectations as gx\n"
        "import great_expectations.expectations as gxe\n"
        "made = gx.ExpectationSuite('mine', expectations=[\n"
        "    gxe.ExpectColumnValuesToNotBeNull(column='topic', meta={'since': date(2026, 1, 1)}),\n"
        "    gxe.ExpectColumnMaxToBeBetween(column='observed_at', max_value=date(2030, 1, 1))])\n"
    )

    brought_expectations, mistakes = read(tmp_path)

    assert [
        brought_expectation.name for brought_expectation in brought_expectations["progress.groups"]
    ] == ["expect_column_max_to_be_between_observed_at"]
    assert mistakes == [
        f"{file} expectations[0]: is no JSON: Object of type date is not JSON serializable"
    ]


def test_text_is_utf_8_whatever_the_locale(tmp_path: Path, monkeypatch) -> None:
    put(tmp_path, "progress.groups.json", LAG)
    file = tmp_path / "progress.groups.json"
    file.write_text(file.read_text().replace('"x"', '"订单"'), encoding="utf-8")
    monkeypatch.setattr("io.text_encoding", lambda given, *_: given or "ascii")

    assert read(tmp_path)[1] == []


def test_expectations_of_one_type_and_column_are_numbered(tmp_path: Path) -> None:
    put(tmp_path, "progress.groups.json", LAG, LAG)
    put(tmp_path, "progress/groups.json", LAG)

    brought_expectations, mistakes = read(tmp_path)

    name = "expect_column_values_to_be_between_lag"
    assert mistakes == []
    assert [
        brought_expectation.name for brought_expectation in brought_expectations["progress.groups"]
    ] == [name, f"{name}_2", f"{name}_3"]


def test_name_of_a_set_of_columns_is_the_same_in_every_process(tmp_path: Path) -> None:
    """The order of a set of texts differs between processes."""
    (tmp_path / "progress.groups.py").write_text(
        "import great_expectations as gx\n"
        "import great_expectations.expectations as gxe\n"
        "columns = {'topic', 'lag', 'health', 'cluster', 'consumer_group', 'delay_ms'}\n"
        "made = gx.ExpectationSuite('mine', expectations=[\n"
        "    gxe.ExpectTableColumnsToMatchSet(column_set=columns, exact_match=False)])\n"
    )

    brought_expectations, mistakes = read(tmp_path)

    assert mistakes == []
    assert [
        brought_expectation.name for brought_expectation in brought_expectations["progress.groups"]
    ] == ["expect_table_columns_to_match_set_cluster_consumer_group_delay_ms_health_lag_topic"]


def test_link_that_leads_nowhere_or_to_a_folder_names_itself(tmp_path: Path) -> None:
    folder, elsewhere = tmp_path / "expectations", tmp_path / "elsewhere"
    put(elsewhere, "groups.json", GOOD)
    folder.mkdir()
    (folder / "progress.groups.json").symlink_to(elsewhere / "groups.json")
    (folder / "progress").symlink_to(elsewhere)
    (folder / "raw.topics.json").symlink_to(elsewhere / "topics.json")

    brought_expectations, mistakes = read(folder)

    assert list(brought_expectations) == ["progress.groups"]
    assert mistakes == [
        f"{folder / 'progress'}: is a link to a folder; link its files instead",
        f"{folder / 'raw.topics.json'}: cannot be read: No such file or directory",
    ]


def test_what_is_no_suite_by_its_name_is_ignored(tmp_path: Path) -> None:
    for name in (".ge_store_backend_id", "README.md", "__pycache__/a.pyc", ".git/config.json"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("x")

    assert read(tmp_path) == ({}, [])


@pytest.mark.parametrize(
    ("name", "text", "line"),
    [
        (
            "progress.group.json",
            "{}",
            ": no table 'progress.group'; did you mean 'progress.groups'",
        ),
        ("progress.groups.yaml", "", ": is neither .json nor .py; move it out of this folder"),
        ("progress.groups.json", '{\n"a": }', ":2:6: is not JSON: Expecting value; "),
        ("progress.groups.json", "[]", ": is no suite: 'expectations' should be a list"),
        ("raw.topics.py", "x = 1\ny = = 2\n", ":2: is not Python: invalid syntax; "),
        ("raw.topics.py", "x = 1\nx / 0\n", ":2: raises ZeroDivisionError: division by zero; "),
        ("raw.topics.py", "def suite():\n    raise SystemExit(3)", ":2: raises SystemExit: 3; "),
        ("raw.topics.py", "x = 1\n", ": makes no ExpectationSuite; assign an ExpectationSuite"),
    ],
)
def test_wrong_file_names_itself_and_stops_no_other(
    tmp_path: Path, name: str, text: str, line: str
) -> None:
    (tmp_path / name).write_text(text)
    put(tmp_path, "raw.brokers.json", {**GOOD, "kwargs": {"column": "broker"}})

    brought_expectations, (mistake,) = read(tmp_path)

    assert list(brought_expectations) == ["raw.brokers"]
    assert mistake.startswith(f"{tmp_path / name}{line}")
    assert "\n" not in mistake


@pytest.mark.parametrize(
    ("wrong", "mistake"),
    [
        ({"type": "expect_lag", "kwargs": {}}, "no expectation type 'expect_lag'; "),
        (
            {"type": "expect_column_values_to_not_be_nul", "kwargs": {}},
            "did you mean 'expect_column_values_to_not_be_null'?",
        ),
        ({**LAG, "kwargs": {"column": "lagg"}}, "min_value and max_value cannot both be None"),
        (
            {**LAG, "kwargs": {"column": "lagg", "max_value": 1}},
            "no column 'lagg' in progress.groups; did you mean 'lag'?",
        ),
        ({**LAG, "kwargs": {"colum": "lag", "max_value": 1}}, "kwargs.column: field required"),
        ({**LAG, "meta": {"severity": "critical"}}, "meta.severity should be 'warn' or 'block'"),
        ({**LAG, "meta": {"severity": "block"}}, "is validated once an hour, when there is nothin"),
        ({**LAG, "meta": {"name": "a b"}}, "meta.name should be letters, digits and '_'"),
        ({**LAG, "meta": {"name": "lag_ge_0"}}, "Tidemark has an expectation 'lag_ge_0'"),
        ({**LAG, "meta": {"name": "hourly"}}, "meta.name: 'hourly' is the check of a whole table"),
        (
            {"expectation_type": "expect_column_to_exist", "kwargs": {"column": "lag"}},
            "is of Great Expectations before 1.0: rename expectation_type to type",
        ),
        ("text", "should be an object with type and kwargs"),
    ],
)
def test_wrong_expectation_is_left_out_alone(tmp_path: Path, wrong: object, mistake: str) -> None:
    file = put(tmp_path, "progress.groups.json", GOOD, wrong)

    brought_expectations, (line,) = read(tmp_path)

    assert [
        brought_expectation.name for brought_expectation in brought_expectations["progress.groups"]
    ] == ["expect_column_values_to_not_be_null_topic"]
    assert line.startswith(f"{file}")
    assert " expectations[1]: " in line
    assert mistake in line
    assert "\n" not in line


def test_mistake_names_the_line_of_the_expectation(tmp_path: Path) -> None:
    wrong = {"type": "expect_column_values_to_not_be_null", "kwargs": {"column": "x"}}
    file = put(tmp_path, "progress.groups.json", GOOD, wrong)
    at = [number for number, text in enumerate(file.read_text().splitlines(), 1) if "_null" in text]

    _, (line,) = read(tmp_path)

    assert line.startswith(f"{file}:{at[1]} expectations[1]: no column 'x'")


def test_name_given_twice_is_a_mistake(tmp_path: Path) -> None:
    named = {**LAG, "meta": {"name": "small"}}
    file = put(tmp_path, "progress.groups.json", named, named)

    brought_expectations, (line,) = read(tmp_path)

    assert len(brought_expectations["progress.groups"]) == 1
    assert f"{file}" in line and "has the name 'small' too" in line
