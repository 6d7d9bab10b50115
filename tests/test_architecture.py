"""What holds the repository together: who may import whom, what no file may say, the tables.

The table of directions stands here once more on purpose: a change of architecture is a change of
this file, not something that an import statement does in passing.
"""

import ast
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from assets.metadata import EVERY_HOUR
from expectations.suites import RULES, SUITES
from lake.schema import type_text
from lake.tables import TABLES
from orchestration.definitions import build

ROOT = Path(__file__).parent.parent

MAY_IMPORT = {
    "rocketmq": set(),
    "lake": {"rocketmq"},
    "spark": {"lake", "rocketmq.allocation", "rocketmq.names"},
    "expectations": {"lake"},
    "alerting": {"lake"},
    "assets": {"rocketmq", "lake", "spark", "expectations", "alerting"},
    "orchestration": {"rocketmq", "lake", "spark", "expectations", "alerting", "assets"},
    "lab": {"rocketmq"},
}
"""Folder to what of ours it may import beside itself; those not listed may import anything."""

OURS = {*MAY_IMPORT, "tidemark", "bench", "tests"}

HEAVY = {
    "rocketmq": {"pyspark", "dagster", "pandas", "pyarrow", "great_expectations"},
    "lake": {"pyspark", "dagster", "pandas", "great_expectations"},
    "alerting": {"pyspark", "dagster", "pandas", "great_expectations"},
    "spark": {"dagster", "great_expectations"},
}
"""Libraries that would take a folder's purpose away. (`dagster_pyspark` is one of its own.)"""


def imports(path: Path) -> Iterator[str]:
    """Every module a file imports, wherever in it; ``from a import b`` may mean module a.b."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path} imports relatively"
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def within(module: str, allowed: set[str]) -> bool:
    return any(module == name or module.startswith(name + ".") for name in allowed)


def tracked() -> list[Path]:
    found = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True)
    if found.returncode:
        pytest.skip("not a git checkout: which files are tracked is not known")
    return [ROOT / name for name in found.stdout.split("\0") if name and (ROOT / name).is_file()]


@pytest.mark.parametrize("package", sorted(MAY_IMPORT))
def test_imports_point_in_one_direction(package):
    allowed = MAY_IMPORT[package] | {package}
    files = sorted((ROOT / package).rglob("*.py"))
    assert files
    wrong = [
        f"{path.relative_to(ROOT)} imports {module}"
        for path in files
        for module in imports(path)
        if module.split(".")[0] in OURS and not within(module, allowed)
    ]
    assert wrong == []


@pytest.mark.parametrize("package", sorted(HEAVY))
def test_a_folder_does_without_what_is_not_its_business(package):
    wrong = [
        f"{path.relative_to(ROOT)} imports {module}"
        for path in sorted((ROOT / package).rglob("*.py"))
        for module in imports(path)
        if module.split(".")[0] in HEAVY[package]
    ]
    assert wrong == []


def test_every_folder_says_what_belongs_there():
    for package in (*MAY_IMPORT, "tidemark"):
        text = ast.get_docstring(ast.parse((ROOT / package / "__init__.py").read_text())) or ""
        assert "belong" in text, package
        assert re.search(r"\b(not|nothing)\b", text.lower()), package


REGISTRY = re.compile(
    r"pythonhosted|pypi\.|index-url|find-links|artifactory|npmjs|repo1\.|maven\.org|://[^/\s]*nexus",
    re.IGNORECASE,
)
MACHINE_PATH = re.compile(r"(?<![\w.])/(?:work|root|Users/\w+|home/\w+|mnt/\w+)/")


@pytest.mark.parametrize(
    "what, pattern",
    [("a registry's address", REGISTRY), ("a path of one machine", MACHINE_PATH)],
    ids=["registry", "path"],
)
def test_no_tracked_file_holds(what, pattern):
    found = []
    for path in tracked():
        if path == Path(__file__):
            continue
        text = path.read_bytes().decode("utf-8", errors="replace")
        lines = [text[: match.start()].count("\n") + 1 for match in pattern.finditer(text)]
        if str(ROOT) in text:
            lines.append(text[: text.index(str(ROOT))].count("\n") + 1)
        found += [f"{path.relative_to(ROOT)}:{line}" for line in lines]
    assert found == [], what


def test_the_lock_holds_hashes_and_no_address():
    text = (ROOT / "requirements" / "lock.txt").read_text()
    assert "--hash=sha256:" in text
    assert "://" not in text


# Tables

CONTRACT = {
    "raw.snapshots": "snapshot_id string, cluster string, source string, observed_at timestamp, "
    "finished_at timestamp, status string, brokers_expected int, brokers_answered int, "
    "requests int, bytes bigint, duration_ms bigint, "
    "problems array<struct<endpoint:string;operation:string;code:int;message:string>>",
    "raw.brokers": "snapshot_id string, observed_at timestamp, cluster string, broker string, "
    "broker_id bigint, address string, version string, role string, disk_ratio double, "
    "dispatch_behind_bytes bigint, commit_log_min_offset bigint, commit_log_max_offset bigint, "
    "earliest_stored_at timestamp, retention_hours int, slave_read_enabled boolean, "
    "put_tps double, get_tps double, config map<string;string>",
    "raw.queue_offsets": "snapshot_id string, observed_at timestamp, cluster string, "
    "broker string, topic string, queue_id int, min_offset bigint, max_offset bigint, "
    "newest_stored_at timestamp",
    "raw.consumer_offsets": "snapshot_id string, observed_at timestamp, cluster string, "
    "broker string, consumer_group string, topic string, queue_id int, client_id string, "
    "consumer_offset bigint, pull_offset bigint, pull_source string, "
    "first_unconsumed_at timestamp, offset_store string",
    "raw.topics": "snapshot_id string, observed_at timestamp, cluster string, broker string, "
    "topic string, read_queues int, write_queues int, perm int, message_type string, kind string",
    "raw.consumer_groups": "snapshot_id string, observed_at timestamp, cluster string, "
    "broker string, consumer_group string, consume_enable boolean, retry_max_times int, "
    "which_broker_when_slow bigint, consume_orderly boolean, system boolean",
    "raw.clients": "snapshot_id string, observed_at timestamp, cluster string, "
    "consumer_group string, client_id string, client_address string, language string, "
    "version string, consume_type string, message_model string, consume_from_where string, "
    "thread_count int, allocation_strategy string, started_at timestamp, "
    "subscriptions array<struct<topic:string;expression_type:string;expression:string;"
    "tags:array<string>>>, subscriptions_source string",
    "progress.queues": "snapshot_id string, observed_at timestamp, cluster string, "
    "broker string, topic string, queue_id int, consumer_group string, client_id string, "
    "min_offset bigint, max_offset bigint, consumer_offset bigint, pull_offset bigint, "
    "lag bigint, inflight bigint, available bigint, lost bigint, readable_lag bigint, "
    "lag_upper bigint, consumer_at timestamp, pull_at timestamp, newest_at timestamp, "
    "delay_ms bigint, lag_span_ms bigint, inflight_span_ms bigint, available_span_ms bigint, "
    "delay_source string, delay_error_ms bigint, produce_tps double, consume_tps double, "
    "pull_tps double, drain_seconds double, loss_in_seconds double, condition string",
    "progress.groups": "observed_at timestamp, cluster string, consumer_group string, "
    "topic string, lag bigint, inflight bigint, available bigint, lost bigint, "
    "readable_lag bigint, lag_upper bigint, queues int, queues_unknown int, "
    "queues_never_committed int, complete boolean, max_queue_lag bigint, worst_broker string, "
    "worst_queue_id int, delay_ms bigint, lag_span_ms bigint, inflight_span_ms bigint, "
    "available_span_ms bigint, produce_tps double, consume_tps double, pull_tps double, "
    "skew double, drain_seconds double, loss_in_seconds double, clients int, online boolean, "
    "message_model string, consume_type string, client_version string, retry_lag bigint, "
    "dlq_messages bigint",
    "progress.assignments": "observed_at timestamp, cluster string, consumer_group string, "
    "topic string, broker string, queue_id int, strategy string, expected_client_id string, "
    "actual_client_id string, state string",
    "progress.idle_clients": "observed_at timestamp, cluster string, consumer_group string, "
    "topic string, client_id string, reason string",
    "progress.subscriptions": "observed_at timestamp, cluster string, consumer_group string, "
    "consistent boolean, difference string, evidence array<struct<client_id:string;"
    "client_address:string;message_model:string;allocation_strategy:string;subscriptions:"
    "array<struct<topic:string;expression_type:string;expression:string>>>>",
    "quality.results": "observed_at timestamp, table string, expectation string, "
    "success boolean, unexpected bigint, elements bigint, severity string, "
    "window_start timestamp, window_end timestamp, run_id string",
    "quality.quarantine": "observed_at timestamp, table string, reason string, row string, "
    "snapshot_id string",
    "quality.decisions": "observed_at timestamp, decided_at timestamp, table string, "
    "snapshot_id string, row string, decision string, author string, comment string",
    "alerting.alerts": "observed_at timestamp, rule string, severity string, subject string, "
    "value double, threshold double, evidence string",
    "alerting.incidents": "incident_id string, rule string, subject string, severity string, "
    "state string, opened_at timestamp, fired_at timestamp, acknowledged_at timestamp, "
    "resolved_at timestamp, last_value double, peak_value double, observations bigint",
    "alerting.notifications": "incident_id string, transition string, channel string, "
    "attempts int, delivered_at timestamp, last_error string",
}
"""What others read: these columns keep their name, type and meaning. Columns may be added."""

KEYS = {
    "raw.snapshots": "snapshot_id",
    "raw.brokers": "snapshot_id broker broker_id",
    "raw.queue_offsets": "snapshot_id broker topic queue_id",
    "raw.consumer_offsets": "snapshot_id broker consumer_group topic queue_id client_id",
    "raw.clients": "snapshot_id consumer_group client_id",
    "progress.queues": "observed_at cluster broker topic queue_id consumer_group client_id",
    "progress.groups": "observed_at cluster consumer_group topic",
    "progress.assignments": "observed_at cluster consumer_group topic broker queue_id",
    "progress.idle_clients": "observed_at cluster consumer_group topic client_id",
    "progress.subscriptions": "observed_at cluster consumer_group",
    "alerting.incidents": "incident_id",
    "alerting.notifications": "incident_id transition channel",
}


@pytest.mark.parametrize("name", sorted(CONTRACT))
def test_a_table_has_the_columns_of_the_contract(name):
    declared = {column.name: type_text(column.type) for column in TABLES[name].columns}
    for column in CONTRACT[name].split(", "):
        column, kind = column.split(" ")
        assert declared.get(column) == kind.replace(";", ","), column


@pytest.mark.parametrize("name", sorted(KEYS))
def test_a_table_has_the_key_of_the_contract(name):
    assert list(TABLES[name].key) == KEYS[name].split()


@pytest.mark.parametrize("table", TABLES.values(), ids=TABLES)
def test_a_declaration_is_sound(table):
    names = table.column_names
    assert len(names) == len(set(names))
    assert re.fullmatch(r"[a-z]+\.[a-z]+(_[a-z]+)*", table.name)
    assert all(re.fullmatch(r"[a-z][a-z0-9]*(_[a-z0-9]+)*", name) for name in names)
    assert set(table.key) <= set(names)
    assert table.key and set(table.nullable_key) < set(table.key)
    columns = {column.name: column for column in table.columns}
    assert type_text(columns[table.instant].type) == "timestamp"
    assert table.comment.endswith(".") and all(column.comment for column in table.columns)


@pytest.mark.parametrize(
    "ending, kind", [("_at", "timestamp"), ("_ms", "bigint"), ("_tps", "double"), ("_id", None)]
)
def test_the_ending_of_a_name_tells_its_type(ending, kind):
    kinds = {
        (column.name, type_text(column.type))
        for table in TABLES.values()
        for column in table.columns
        # A client tells its round trips as an average, which is no whole number.
        if column.name.endswith(ending) and not column.name.endswith("_rt_ms")
    }
    assert kinds
    if kind:
        assert {found for _, found in kinds} == {kind}
    # A name means the same everywhere, so it has one type everywhere.
    assert len(kinds) == len({name for name, _ in kinds})


def test_definitions_load_as_the_daemon_loads_them():
    build().get_repository_def().load_all_definitions()


def test_every_table_is_an_asset_of_its_name_and_every_suite_a_check():
    graph = build().resolve_asset_graph()
    assets = {".".join(key.path) for key in graph.get_all_asset_keys()}
    assert set(TABLES) | {"landing", "maintenance", "data_docs"} == assets
    # No run's work: what people were told, the sensor that tells them writes it down; and what
    # they have decided.
    made = {".".join(key.path) for key in graph.materializable_asset_keys}
    assert assets - made == {"alerting.notifications", "quality.decisions"}
    checks = [(key.name, ".".join(key.asset_key.path)) for key in graph.asset_check_keys]
    every_tick = [("expectations", name) for name in RULES]
    assert sorted(checks) == sorted([*every_tick, *(("hourly", name) for name in SUITES)])
    # So the UI shows what has gone stale, of all that runs make.
    fresh = {
        ".".join(key.path): graph.get(key).freshness_policy for key in graph.get_all_asset_keys()
    }
    assert {name for name in assets if fresh[name] is None} == {"alerting.notifications"}
    assert {name for name in assets if fresh[name] == EVERY_HOUR} == {"maintenance", "data_docs"}
    for key in graph.asset_check_keys:
        suites = SUITES if key.name == "hourly" else RULES
        rules = suites[".".join(key.asset_key.path)]
        description = graph.get(key).description or ""
        assert all(rule.name in description for rule in rules)
