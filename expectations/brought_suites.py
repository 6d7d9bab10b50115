"""Suites of Great Expectations that people bring: their files, and the mistakes in them.

A folder holds a file for each table, named by it: ``progress.groups.json``, or
``progress/groups.json`` as ``context.suites.add`` of a file context writes a suite of that name, or
``raw.queue_offsets.py``, which assigns an `ExpectationSuite` to a variable or returns it from a
function ``suite()``. A Python file is executed wherever suites are read. ``meta`` of an expectation
may hold its ``name`` and its ``severity``, ``warn`` or ``block``.
"""

import json
import re
import runpy
import traceback
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from expectations.audit_suites import AUDIT_EXPECTATIONS
from expectations.declarations import NAME, Expectation, Severity
from expectations.tick_suites import TICK_EXPECTATIONS
from tidemark.lake.tables import TABLES

WHAT_TO_DO = "assign an ExpectationSuite to a variable, or return it from a function suite()"


def python_suite(file: Path, text: str) -> Sequence[Any]:
    """Execute a file and return the expectations of the suite that it makes.

    Args:
        file: the file.
        text: its content.

    Raises:
        ValueError: with the place in the file and the mistake, in one line.
    """
    import great_expectations as gx
    from great_expectations.data_context.types.base import InMemoryStoreBackendDefaults

    from expectations.gx_suite import great_expectations_context

    # A suite needs its context when an expectation is added.
    great_expectations_context(InMemoryStoreBackendDefaults())
    try:
        compile(text, str(file), "exec")
        names = runpy.run_path(str(file))
        suites = {
            id(name): name for name in names.values() if isinstance(name, gx.ExpectationSuite)
        }
        if not suites and callable(function := names.get("suite")):
            made = function()
            suites = {id(made): made} if isinstance(made, gx.ExpectationSuite) else {}
    except SyntaxError as error:
        raise ValueError(
            f":{error.lineno}: is not Python: {error.msg}; correct or remove it"
        ) from None
    except (Exception, SystemExit) as error:
        what = " ".join(f"{type(error).__name__}: {error}".split())
        raise ValueError(f":{_line(file, error)}: raises {what}; correct or remove it") from None
    if len(suites) != 1:
        how_many = "no ExpectationSuite" if not suites else f"{len(suites)} suites"
        raise ValueError(f": makes {how_many}; {WHAT_TO_DO}")
    (suite,) = suites.values()
    return suite.expectations


def _line(file: Path, error: BaseException) -> int:
    """Return the last line of the file that an error passed through."""
    frames = traceback.extract_tb(error.__traceback__)
    lines = [frame.lineno for frame in frames if frame.filename == str(file) and frame.lineno]
    return lines[-1] if lines else 1


SEVERITIES: tuple[Severity, ...] = ("warn", "block")
"""Severities that a person may give, the default first. Only our own conditions quarantine."""

TICK_CHECK, AUDIT_CHECK = "expectations", "hourly"
"""Names of the asset checks of whole tables, which no expectation has. Each is of all expectations
of a table, and fails when any of them fails, also one with a check of its own."""

USABLE = "suites_are_usable"
"""Name of the expectation that no file of the folder has a mistake, on ``quality.results``."""

IGNORED = (".md", ".txt")
"""Suffixes of files that may lie in the folder without being suites."""

_OF_COLUMNS = ("column", "column_A", "column_B", "column_list", "column_set")
_NAME = re.compile(r"[A-Za-z0-9_]+")


@dataclass(frozen=True, kw_only=True)
class BroughtExpectation:
    """One expectation of a suite that a person brings.

    Attributes:
        name: unique in its table: the name in its ``meta``, else its type and columns.
        severity: ``warn`` | ``block``.
        expected: the expectation in one line for people.
        mostly: share of the rows that must meet it, 0..1.
        gx: the expectation as Great Expectations validates it.
        place: file and position, as mistakes name it.
        columns: columns that it names.
    """

    name: str
    severity: Severity
    expected: str
    mostly: float
    gx: Any
    place: str
    columns: tuple[str, ...] = ()

    @property
    def description(self) -> str:
        """Name, expectation and severity in one line, as Dagster shows them."""
        return f"{self.name}: {self.expected} ({self.severity})"

    @property
    def own_check(self) -> bool:
        """Always true: an expectation that a person brings gets an asset check of its own."""
        return True


Brought = Mapping[str, Sequence[BroughtExpectation]]
"""Expectations that people bring, by full name of the table."""

Suite = Sequence[Expectation | BroughtExpectation]
"""All expectations of a table that are validated together."""


def read(folder: Path, *, required: bool = False) -> tuple[Brought, list[str]]:
    """Read all suites of a folder.

    Imports Great Expectations (4-5 s) when there is a suite.

    Args:
        folder: the folder, as mistakes name it.
        required: whether it is a mistake when the folder does not exist.

    Returns:
        The valid expectations by full name of the table, and one line for each mistake. A mistake
        leaves out its expectation, or its file when that cannot be read.
    """
    if not folder.is_dir():
        missing = f"{folder}: is no folder; put suites into it as TABLE.json or TABLE.py"
        return {}, [missing] if required or folder.exists() else []
    brought_expectations: dict[str, list[BroughtExpectation]] = {}
    mistakes: list[str] = []
    for file in _files(folder):
        table = ".".join(file.relative_to(folder).with_suffix("").parts)
        try:
            _require_table(table, file)
            items = _items(file)
        except ValueError as error:
            mistakes.append(f"{file}{error}")
            continue
        for place, item in items:
            try:
                _add(
                    brought_expectations.setdefault(table, []),
                    _expectation(table, item, f"{file}{place}"),
                )
            except ValueError as error:
                mistakes.append(f"{file}{place}: {error}")
    return {
        table: tuple(brought_expectation)
        for table, brought_expectation in brought_expectations.items()
        if brought_expectation
    }, mistakes


def _files(folder: Path) -> Iterator[Path]:
    """Yield the files of a folder, except hidden ones and caches of Python.

    A link is yielded whatever its target, so that a link without a readable target is reported.
    """
    for file in sorted(folder.rglob("*")):
        parts = file.relative_to(folder).parts
        hidden = any(part.startswith(".") or part == "__pycache__" for part in parts)
        if (file.is_file() or file.is_symlink()) and not hidden and file.suffix not in IGNORED:
            yield file


def _require_table(table: str, file: Path) -> None:
    if file.is_dir():
        raise ValueError(": is a link to a folder; link its files instead")
    if file.suffix not in (".json", ".py"):
        raise ValueError(": is neither .json nor .py; move it out of this folder")
    if table not in AUDIT_EXPECTATIONS:
        raise ValueError(f": no table {table!r}; {_nearest(table, AUDIT_EXPECTATIONS)}")


def _items(file: Path) -> list[tuple[str, Any]]:
    """Return place and content of each expectation of a file.

    Raises:
        ValueError: with the place in the file and the mistake.
    """
    try:
        text = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ValueError(f": cannot be read: {getattr(error, 'strerror', None) or error}") from None
    if file.suffix == ".py":
        return [(f" expectations[{n}]", item) for n, item in enumerate(python_suite(file, text))]
    try:
        suite = json.loads(text)
    except json.JSONDecodeError as error:
        where = f":{error.lineno}:{error.colno}: "
        raise ValueError(f"{where}is not JSON: {error.msg}; correct or remove it") from None
    items = suite.get("expectations") if isinstance(suite, dict) else None
    if not isinstance(items, list):
        raise ValueError(
            ": is no suite: 'expectations' should be a list, as context.suites.add writes it"
        )
    lines = _lines(text, items)
    return [
        (f"{line} expectations[{n}]", item)
        for n, (line, item) in enumerate(zip(lines, items, strict=True))
    ]


def _lines(text: str, items: Sequence[Any]) -> list[str]:
    """Return the line of each expectation as ``:LINE``, found by its type."""
    lines, at = [], 0
    for item in items:
        kind = item.get("type") if isinstance(item, dict) else None
        begin = text.find(json.dumps(kind), at) if isinstance(kind, str) else -1
        at = begin + 1 if begin >= 0 else at
        lines.append(f":{text.count(chr(10), 0, begin) + 1}" if begin >= 0 else "")
    return lines


def _expectation(table: str, item: Any, place: str) -> BroughtExpectation:
    """Return an expectation as it is validated.

    Args:
        table: full name of the table.
        item: its configuration in JSON, or an expectation of a Python file.
        place: file and position.

    Raises:
        ValueError: the mistake, in one line.
    """
    gx = _made(item) if isinstance(item, dict) else item
    if not hasattr(gx, "configuration"):
        raise ValueError("should be an object with type and kwargs")
    configuration = gx.configuration
    try:
        json.dumps(configuration.to_json_dict())
    except TypeError as error:
        raise ValueError(f"is no JSON: {_one_line(error)}") from None
    arguments = {name: kwarg for name, kwarg in configuration.kwargs.items() if name != "batch_id"}
    meta = gx.meta or {}
    columns = list(_columns(arguments))
    _require_columns(table, columns)
    name = meta.get("name") or "_".join((configuration.type, *columns))
    name = name if "name" in meta else re.sub(r"\W", "_", name)
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise ValueError(f"meta.name should be letters, digits and '_', not {name!r}")
    if name in {expectation.name for expectation in AUDIT_EXPECTATIONS[table]}:
        raise ValueError(f"meta.name: Tidemark has an expectation {name!r}; choose another name")
    if name in (TICK_CHECK, AUDIT_CHECK, USABLE):
        raise ValueError(f"meta.name: {name!r} is the check of a whole table; choose another name")
    severity = meta.get("severity", SEVERITIES[0])
    if severity not in SEVERITIES:
        raise ValueError(f"meta.severity should be 'warn' or 'block', not {severity!r}")
    if severity == "block" and table not in TICK_EXPECTATIONS:
        raise ValueError(
            f"meta.severity: {table} is validated once an hour, when there is nothing to block; "
            "use 'warn'"
        )
    shown = ", ".join(f"{name}={value!r}" for name, value in arguments.items())
    mostly = arguments.get("mostly", 1.0)
    return BroughtExpectation(
        name=name,
        severity=severity,
        expected=gx.description or f"{configuration.type}({shown})",
        mostly=float(mostly) if isinstance(mostly, int | float) else 1.0,
        gx=gx,
        place=place,
        columns=tuple(columns),
    )


def _made(item: dict[str, Any]) -> Any:
    """Return the expectation of a configuration in JSON.

    Raises:
        ValueError: the mistake, in one line.
    """
    from great_expectations.exceptions.exceptions import ExpectationNotFoundError
    from great_expectations.expectations.expectation_configuration import ExpectationConfiguration
    from great_expectations.expectations.registry import list_registered_expectation_implementations

    if "expectation_type" in item:
        raise ValueError("is of Great Expectations before 1.0: rename expectation_type to type")
    try:
        return ExpectationConfiguration(**{"kwargs": {}, **item, "id": None}).to_domain_obj()
    except ExpectationNotFoundError:
        known = list_registered_expectation_implementations()
        raise ValueError(
            f"no expectation type {item.get('type')!r}; {_nearest(str(item.get('type')), known)}"
        ) from None
    except Exception as error:
        raise ValueError(_one_line(error)) from None


def _one_line(error: Exception) -> str:
    """Return all mistakes that Great Expectations' models find, or the error, in one line."""
    errors = getattr(error, "errors", None)
    if not callable(errors):
        return " ".join(str(error).split()) or type(error).__name__
    mistakes: Any = errors()
    return "; ".join(_mistake(mistake) for mistake in mistakes)


def _mistake(mistake: Mapping[str, Any]) -> str:
    field = ".".join(str(part) for part in mistake["loc"] if part != "__root__")
    return f"kwargs.{field}: {mistake['msg']}" if field else str(mistake["msg"])


def _columns(arguments: Mapping[str, Any]) -> Iterator[str]:
    """Yield the columns that an expectation names."""
    for key in _OF_COLUMNS:
        value = arguments.get(key)
        if isinstance(value, str):
            yield value
        elif isinstance(value, Iterable):
            names = [item for item in value if isinstance(item, str)]
            # The order of a set differs between processes, and the name is made of it.
            yield from sorted(names) if isinstance(value, set) else names


def _require_columns(table: str, columns: Iterable[str]) -> None:
    known = TABLES[table].column_names
    for column in columns:
        if column.split(".")[0] not in known:
            raise ValueError(f"no column {column!r} in {table}; {_nearest(column, known)}")


def _nearest(name: str, known: Iterable[str]) -> str:
    names = list(known)
    nearest = get_close_matches(name, names, n=1)
    return f"did you mean {nearest[0]!r}?" if nearest else f"there are {', '.join(sorted(names))}"


def _add(brought_expectations: list[BroughtExpectation], new: BroughtExpectation) -> None:
    """Add an expectation; one whose name another has gets a number behind its own.

    Raises:
        ValueError: a person gave both the same name.
    """
    taken = {
        brought_expectation.name: brought_expectation.place
        for brought_expectation in brought_expectations
    }
    if new.name in taken and "name" in (new.gx.meta or {}):
        raise ValueError(f"meta.name: {taken[new.name]} has the name {new.name!r} too")
    name, number = new.name, 1
    while name in taken:
        number += 1
        name = f"{new.name}_{number}"
    named = replace(new, name=name)
    # Results are found by this name. Data Docs show the description in place of the type's own
    # sentence, which has neither name nor severity.
    meta = {**(new.gx.meta or {}), NAME: name}
    gx = new.gx.copy(update={"id": None, "meta": meta, "description": named.description})
    brought_expectations.append(replace(named, gx=gx))
