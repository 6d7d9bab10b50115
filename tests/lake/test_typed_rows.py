"""Rows as records: nothing is lost on the way there and back, and NULL is the default."""

from datetime import UTC, datetime, timedelta

import msgspec
import pyarrow as pa
import pytest

from tidemark.lake.schema import BIGINT, STRING, STRING_MAP, STRINGS, TIMESTAMP
from tidemark.lake.typed_rows import plain_rows, typed_rows

NOON = datetime(2026, 3, 1, 12, 0, 0, 123456, UTC)
LATER = NOON + timedelta(microseconds=1)


class Step(msgspec.Struct, frozen=True):
    name: str
    at: datetime


class Row(msgspec.Struct, frozen=True, kw_only=True):
    key: str
    at: datetime
    ended_at: datetime | None = None
    count: int | None = None
    labels: dict[str, str] = {}
    names: tuple[str, ...] = ()
    steps: tuple[Step, ...] = ()


SCHEMA = pa.schema(
    [
        ("key", STRING),
        ("other", STRING),
        ("at", TIMESTAMP),
        ("ended_at", TIMESTAMP),
        ("count", BIGINT),
        ("labels", STRING_MAP),
        ("names", STRINGS),
        ("steps", pa.list_(pa.struct([("name", STRING), ("at", TIMESTAMP)]))),
    ]
)

ROWS = [
    Row(
        key="a",
        at=NOON,
        ended_at=LATER,
        count=2**62,
        labels={"team": "sea"},
        names=("x", "y"),
        steps=(Step("up", NOON),),
    ),
    Row(key="b", at=LATER),
    Row(key="c", at=NOON, ended_at=NOON, count=0),
]


def test_records_come_back_from_a_table_as_they_were():
    table = pa.Table.from_pylist(plain_rows(ROWS), schema=SCHEMA)
    assert table["at"].to_pylist() == [NOON, LATER, NOON]
    assert typed_rows(table, Row) == ROWS
    in_parts = pa.concat_tables([table.slice(0, 2), table.slice(2)])
    assert typed_rows(in_parts, Row) == ROWS
    assert typed_rows(table.slice(0, 0), Row) == []


def test_a_column_added_later_reads_as_its_default():
    table = pa.Table.from_pylist([{"key": "a", "at": NOON}], schema=SCHEMA)
    assert table["labels"].to_pylist() == [None]
    assert typed_rows(table, Row) == [Row(key="a", at=NOON)]


def test_a_missing_required_value_is_named():
    table = pa.Table.from_pylist([{"at": NOON}], schema=SCHEMA)
    with pytest.raises(msgspec.ValidationError, match="missing required field `key`"):
        typed_rows(table, Row)
