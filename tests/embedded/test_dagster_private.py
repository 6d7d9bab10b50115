"""Private modules of Dagster are used in one place, for one version."""

import ast
import importlib
import importlib.util

import dagster
import pytest

from tests.support.checkout import ROOMS, ROOT
from tidemark.embedded import dagster_private
from tidemark.embedded.fork_server import PRELOADED


def test_the_installed_dagster_is_the_tested_one():
    assert dagster.__version__ == dagster_private.VERSION


def test_another_version_is_refused_in_one_line(monkeypatch):
    monkeypatch.setattr(dagster, "__version__", "1.99.0")
    spec = importlib.util.find_spec("tidemark.embedded.dagster_private")
    assert spec and spec.loader
    with pytest.raises(ImportError, match="pip install dagster==") as refused:
        spec.loader.exec_module(importlib.util.module_from_spec(spec))
    assert "1.99.0" in str(refused.value) and "\n" not in str(refused.value)


def test_only_one_module_imports_private_modules():
    entries = set()
    for room in ROOMS:
        for path in (ROOT / room).rglob("*.py"):
            for node in ast.walk(ast.parse(path.read_text())):
                names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
                if isinstance(node, ast.ImportFrom):
                    names = [node.module or ""]
                if any(name.startswith(("dagster._", "dagster_shared")) for name in names):
                    entries.add(str(path.relative_to(ROOT)))
    assert entries == {"tidemark/embedded/dagster_private.py"}


@pytest.mark.parametrize(
    "module", [dagster_private.RUN_PROGRAM, *(name for name in PRELOADED if "._" in name)]
)
def test_a_module_named_by_its_path_exists(module):
    assert importlib.util.find_spec(module)
