"""The definitions load, and hold every table and suite."""

import json
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from assets.dagster_names import PREFIX
from assets.metadata import EVERY_HOUR, PAGES
from assets.partitions import TABLES_POOL
from expectations.audit_suites import AUDIT_EXPECTATIONS
from expectations.tick_suites import TICK_EXPECTATIONS
from orchestration.definitions import build
from orchestration.jobs import AUDIT, COLLECT, MAINTAIN, RECOMPUTE, TICK
from tidemark.board.pages import brokers, groups, incidents, quality, tables
from tidemark.lake.tables import TABLES
from tidemark.settings.environment import Settings

INVARIANTS = (
    ("every_broker_answered", "raw.snapshots"),
    ("status_not_failed", "raw.snapshots"),
    ("consumer_offset_le_max_offset", "progress.queues"),
    ("consumer_offset_le_pull_offset", "progress.queues"),
    ("pull_offset_le_max_offset", "progress.queues"),
    ("max_offset_falls_only_when_recreated", "progress.queues"),
)
"""Expectations that have a check of their own besides that of their table."""


def test_definitions_load_as_the_daemon_loads_them():
    build(Settings()).get_repository_def().load_all_definitions()


def test_tables_are_assets_and_suites_are_checks():
    graph = build(Settings()).resolve_asset_graph()
    assets = {".".join(key.path) for key in graph.get_all_asset_keys()}
    assert set(TABLES) | {"landing", "maintenance", "data_docs"} == assets
    # Not made by steps: a sensor writes notifications, people write decisions, checks write pages.
    made = {".".join(key.path) for key in graph.materializable_asset_keys}
    assert assets - made == {"alerting.notifications", "quality.decisions", "data_docs"}
    checks = [(key.name, ".".join(key.asset_key.path)) for key in graph.asset_check_keys]
    every_tick = [("expectations", name) for name in TICK_EXPECTATIONS]
    assert sorted(checks) == sorted(
        [*every_tick, *INVARIANTS, *(("hourly", name) for name in AUDIT_EXPECTATIONS)]
    )
    # So the UI shows which of the assets that runs make are overdue.
    fresh = {
        ".".join(key.path): graph.get(key).freshness_policy for key in graph.get_all_asset_keys()
    }
    assert {name for name in assets if fresh[name] is None} == {"alerting.notifications"}
    assert {name for name in assets if fresh[name] == EVERY_HOUR} == {"maintenance", "data_docs"}
    for key in graph.asset_check_keys:
        suites = AUDIT_EXPECTATIONS if key.name == "hourly" else TICK_EXPECTATIONS
        rules = suites[".".join(key.asset_key.path)]
        description = graph.get(key).description or ""
        if key.name in ("expectations", "hourly"):
            assert all(rule.name in description for rule in rules)
        else:
            (rule,) = (rule for rule in rules if rule.name == key.name)
            assert rule.description == description


def test_every_step_of_every_job_is_in_the_pool_of_tables() -> None:
    """Runs at the same time would replace the same windows, or compute on one engine."""
    jobs = build(Settings()).get_repository_def().get_all_jobs()
    steps = {node.name: node.definition for job in jobs for node in job.nodes}

    without = {name for name, step in steps.items() if step.pools != {TABLES_POOL}}
    on_tables = {
        name
        for name, step in steps.items()
        if step.required_resource_keys & {PREFIX + "run", PREFIX + "spark"}
    }

    # The job of assets that a person selects has all steps.
    assert {TICK.name, COLLECT.name, RECOMPUTE.name, MAINTAIN.name, AUDIT.name} < {
        job.name for job in jobs
    }
    assert {"members", "validate_raw", "validate_progress", "validate_hour"} < on_tables
    assert without & on_tables == set()
    assert without == {"landing", "send_reports"}, "they write to no table"


def test_only_checks_that_keep_rows_from_later_steps_are_blocking(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A person's expectation and a warning stop nothing, and Dagster's pages do not claim that."""
    expectation = {"type": "expect_table_row_count_to_be_between", "kwargs": {"min_value": 1}}
    for table in ("raw.queue_offsets", "progress.groups"):
        file = tmp_path / f"{table}.json"
        file.write_text(json.dumps({"expectations": [expectation]}))
    monkeypatch.setenv("TIDEMARK_EXPECTATIONS", str(tmp_path))

    graph = build(Settings.read()).resolve_asset_graph()

    blocking = {
        (key.name, ".".join(key.asset_key.path))
        for key in graph.asset_check_keys
        if graph.get(key).blocking
    }
    assert blocking == {("expectations", name) for name in TICK_EXPECTATIONS}
    for name in TICK_EXPECTATIONS:
        assert {rule.severity for rule in TICK_EXPECTATIONS[name]} - {"warn"}, name


def test_validation_ends_before_what_needs_its_outcome() -> None:
    job = build(Settings()).resolve_job_def(TICK.name)
    dependencies = job.graph.dependency_structure
    before = {
        "raw": "validate_raw",
        "validate_raw": "quality__quarantine",
        "quality__quarantine": "progress__timeline",
        "progress__queues": "validate_progress",
        "validate_progress": "quality__results",
    }
    for first, second in before.items():
        assert first in _above(dependencies, second), (first, second)


def _above(dependencies: Any, node: str) -> set[str]:
    """Return all nodes that must end before a node starts."""
    direct = {
        output.node_name
        for outputs in dependencies.input_to_upstream_outputs_for_node(node).values()
        for output in outputs
    }
    return direct.union(*(_above(dependencies, above) for above in direct))


def test_brought_expectations_are_checks_of_their_tables(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    expectation = {"type": "expect_table_row_count_to_be_between", "kwargs": {"min_value": 1}}
    for table in ("raw.queue_offsets", "progress.groups"):
        file = tmp_path / f"{table}.json"
        file.write_text(json.dumps({"expectations": [expectation]}))
    (tmp_path / "raw.topics.json").write_text("{")
    monkeypatch.setenv("TIDEMARK_EXPECTATIONS", str(tmp_path))
    definitions = build(Settings.read()).get_repository_def()
    definitions.load_all_definitions()

    jobs = {
        job: {
            ".".join(key.asset_key.path)
            for key in definitions.get_job(job).asset_layer.asset_graph.asset_check_keys
            if key.name == expectation["type"]
        }
        for job in ("tick", "recompute", "audit")
    }

    assert jobs == {
        "tick": {"raw.queue_offsets"},
        "recompute": set(),
        "audit": {"progress.groups"},
    }


def test_a_run_of_a_backfill_computes_the_configured_hours() -> None:
    settings = Settings(backfill_hours=2)
    graph = build(settings).resolve_asset_graph()

    policies = {
        graph.get(key).backfill_policy
        for key in graph.executable_asset_keys
        if graph.get(key).partitions_def
    }

    assert policies == {dg.BackfillPolicy.multi_run(2)}


def test_a_backfill_of_all_assets_is_not_refused(tmp_path: Path) -> None:
    """Dagster 1.13 compares the hours of a step's assets, and finds those of one parent unequal."""
    graph = build(Settings(home=tmp_path)).resolve_asset_graph()
    for key in graph.executable_asset_keys:
        of_step = graph.get(key).execution_set_asset_keys
        outside = [graph.get(asset_key).parent_keys - of_step for asset_key in of_step]
        assert len({len(parents) > 1 for parents in outside}) == 1, key


def test_columns_have_a_lineage_in_the_tables_that_an_asset_depends_on() -> None:
    graph = build(Settings()).resolve_asset_graph()

    def sources(table: str, column: str) -> set[str]:
        node = graph.get(dg.AssetKey(table.split(".")))
        lineage = node.metadata["dagster/column_lineage"]
        return {
            f"{'.'.join(source.asset_key.path)}.{source.column_name}"
            for source in lineage.deps_by_column.get(column, [])
        }

    assert sources("progress.queues", "max_offset") >= {"raw.queue_offsets.max_offset"}
    assert sources("progress.queues", "consumer_offset") == {"raw.consumer_offsets.consumer_offset"}
    assert sources("progress.groups", "lag") == {
        f"progress.queues.{column}" for column in ("lag", "max_offset", "min_offset")
    }
    assert sources("progress.groups", "health") >= {
        "progress.queues.readable_lag",
        "raw.clients.client_id",
        "raw.client_queues.cached_messages",
    }
    assert sources("alerting.incidents", "rule") == {"alerting.alerts.rule"}
    for key in graph.executable_asset_keys:
        node = graph.get(key)
        if lineage := node.metadata.get("dagster/column_lineage"):
            table = TABLES[".".join(key.path)]
            for column, given in lineage.deps_by_column.items():
                assert column in table.column_names
                for source in given:
                    assert source.asset_key in node.parent_keys, (key, column)
                    assert (
                        source.column_name in TABLES[".".join(source.asset_key.path)].column_names
                    )


def test_assets_lead_to_their_page_of_the_board() -> None:
    settings = Settings(board_url="https://board.example/tidemark/")
    graph = build(settings).resolve_asset_graph()
    pages = {
        key.to_user_string(): metadata["board"].value
        for key in graph.get_all_asset_keys()
        if "board" in (metadata := graph.get(key).metadata)
    }
    assert pages["progress/groups"] == "https://board.example/tidemark/groups"
    assert pages["quality/quarantine"] == "https://board.example/tidemark/quality"
    assert "progress/timeline" not in pages, "no page shows its rows"
    unknown = build(Settings()).resolve_asset_graph()
    assert not any("board" in unknown.get(key).metadata for key in unknown.get_all_asset_keys())


def test_every_page_that_assets_lead_to_is_one_of_the_board() -> None:
    modules = (brokers, groups, incidents, quality, tables)
    served = {route.path for module in modules for route in module.router.routes}
    assert set(PAGES.values()) <= served
