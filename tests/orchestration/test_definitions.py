"""The definitions load, and hold every table and suite."""

from assets.metadata import EVERY_HOUR
from expectations.audit_suites import AUDIT_EXPECTATIONS
from expectations.tick_suites import TICK_EXPECTATIONS
from lake.tables import TABLES
from orchestration.definitions import build
from settings.environment import Settings


def test_definitions_load_as_the_daemon_loads_them():
    build(Settings()).get_repository_def().load_all_definitions()


def test_tables_are_assets_and_suites_are_checks():
    graph = build(Settings()).resolve_asset_graph()
    assets = {".".join(key.path) for key in graph.get_all_asset_keys()}
    assert set(TABLES) | {"landing", "maintenance", "data_docs"} == assets
    # Not made by runs: a sensor writes notifications, and people write decisions.
    made = {".".join(key.path) for key in graph.materializable_asset_keys}
    assert assets - made == {"alerting.notifications", "quality.decisions"}
    checks = [(key.name, ".".join(key.asset_key.path)) for key in graph.asset_check_keys]
    every_tick = [("expectations", name) for name in TICK_EXPECTATIONS]
    assert sorted(checks) == sorted(
        [*every_tick, *(("hourly", name) for name in AUDIT_EXPECTATIONS)]
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
        assert all(rule.name in description for rule in rules)
