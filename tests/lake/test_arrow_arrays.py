"""Arrow arrays equal those of `pyarrow.array`, and a process that lands needs no pandas."""

import subprocess
import sys
from datetime import UTC, datetime

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tidemark.lake.schema import (
    BIGINT,
    BOOLEAN,
    DOUBLE,
    INT,
    STRING,
    STRING_MAP,
    STRINGS,
    TIMESTAMP,
)
from tidemark.lake.typed_rows import arrow_array

STEP = pa.struct([("name", STRING), ("tags", STRINGS), ("at", TIMESTAMP)])
TEXTS = st.text(st.characters(exclude_categories=("Cs",)))
INSTANTS = st.datetimes(timezones=st.just(UTC))
VALUES = {
    BIGINT: st.integers(-(2**63), 2**63 - 1),
    INT: st.integers(-(2**31), 2**31 - 1),
    DOUBLE: st.floats(allow_nan=False),
    BOOLEAN: st.booleans(),
    STRING: TEXTS,
    TIMESTAMP: INSTANTS,
    STRINGS: st.lists(TEXTS, max_size=3),
    STRING_MAP: st.dictionaries(TEXTS, st.none() | TEXTS, max_size=3),
    pa.list_(STEP): st.lists(
        st.fixed_dictionaries(
            {"name": st.none() | TEXTS, "tags": st.lists(TEXTS, max_size=2), "at": INSTANTS}
        ),
        max_size=3,
    ),
}


@pytest.mark.parametrize("kind", VALUES, ids=str)
@settings(deadline=None)  # the first `pyarrow.array` imports pandas
@given(st.data())
def test_values_of_every_declared_type_stay_the_same(kind, data):
    some = st.one_of(st.none(), VALUES[kind])
    values = data.draw(st.lists(some, max_size=20) | some.map(lambda one: [one] * 9))
    made = arrow_array(values, kind)
    made.validate(full=True)
    assert made.equals(pa.array(values, kind)) and made.type == kind


def test_the_sign_of_zero_stays():
    assert str(arrow_array([0.0, -0.0], DOUBLE).to_pylist()) == "[0.0, -0.0]"


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (BIGINT, 2**63),
        (INT, 2**31),
        (BIGINT, 1.5),
        (BIGINT, "1"),
        (DOUBLE, "1"),
        (STRING, 1),
        (BOOLEAN, 2),
        (TIMESTAMP, datetime(2026, 1, 1)),
    ],
)
def test_values_of_another_type_are_refused(kind, value):
    with pytest.raises((TypeError, ValueError, OverflowError)):
        arrow_array([value, value, None], kind)


@pytest.mark.slow
def test_landing_imports_neither_pandas_nor_compute_functions(tmp_path):
    code = f"""
import sys
from datetime import UTC, datetime
from pathlib import Path
from tidemark.lake.landing import land
from tidemark.settings.home import Home
from tests.support.cluster_history import Minute, snapshot

before = set(sys.modules)
land(Home.of(Path({str(tmp_path)!r})), snapshot(datetime(2026, 11, 19, tzinfo=UTC), Minute(at=2)))
print([name for name in ("pandas", "pyarrow.compute") if name in sys.modules.keys() - before])
"""
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout == "[]\n"
