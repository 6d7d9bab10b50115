"""Records of more than three fields take keywords: values of one type cannot change places."""

import ast
import tomllib
from pathlib import Path

import pytest

from tidemark.lake.schema import STRING, TIMESTAMP, Column, Table

ROOT = Path(__file__).parents[2]
ROOMS = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"][
    "root_packages"
]
MOST_POSITIONAL = 3
"""Most fields of a record that may be given by position."""


def positional_records(source: str) -> list[str]:
    """Return the records of a module that take more than three fields by position."""
    return [
        node.name
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.ClassDef)
        and is_positional(node)
        and sum(isinstance(statement, ast.AnnAssign) for statement in node.body) > MOST_POSITIONAL
    ]


def is_positional(node: ast.ClassDef) -> bool:
    """Return whether a class is a record that takes its fields by position."""
    bases = {ast.unparse(base).split(".")[-1] for base in node.bases}
    if "NamedTuple" in bases:
        return True
    if "Struct" in bases:
        return "kw_only=True" not in [ast.unparse(word) for word in node.keywords]
    decorators = [ast.unparse(decorator) for decorator in node.decorator_list]
    return any(it.startswith("dataclass") and "kw_only=True" not in it for it in decorators)


@pytest.mark.parametrize("room", ROOMS)
def test_records_take_keywords(room):
    wrong = {
        str(path.relative_to(ROOT)): names
        for path in sorted((ROOT / room).rglob("*.py"))
        if (names := positional_records(path.read_text()))
    }
    assert not wrong


@pytest.mark.parametrize(
    ("head", "is_wrong"),
    [
        ("@dataclass\nclass A:", True),
        ("@dataclass(frozen=True)\nclass A:", True),
        ("@dataclass(frozen=True, kw_only=True)\nclass A:", False),
        ("class A(NamedTuple):", True),
        ("class A(msgspec.Struct, frozen=True):", True),
        ("class A(msgspec.Struct, kw_only=True):", False),
        ("class A:", False),
    ],
)
def test_the_rule_knows_each_kind_of_record(head, is_wrong):
    fields = "".join(f"\n    field_{number}: int" for number in range(4))
    assert positional_records(head + fields) == (["A"] if is_wrong else [])


def test_a_row_with_an_undeclared_column_fails():
    columns = (Column("observed_at", TIMESTAMP, "."), Column("topic", STRING, "."))
    table = Table(name="raw.topics", comment=".", columns=columns, key=("topic",))
    assert table.arrow_table([{"topic": "orders"}]).to_pylist() == [
        {"observed_at": None, "topic": "orders"}
    ]
    with pytest.raises(ValueError, match=r"raw\.topics has no column topics"):
        table.arrow_table([{"topic": "orders"}, {"topics": "orders"}])
