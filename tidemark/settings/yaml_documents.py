"""The one reader of settings files: valid entries, and one line for each mistake with its place.

Every settings file is a mapping with a list under a key, checked by pydantic; rule files have more
than one key. A mistake is one line, ``FILE:LINE: FIELD: mistake``, and all mistakes of a file are
reported at once.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path
from typing import Any, Generic, TypeVar

import yaml
from pydantic import BaseModel, TypeAdapter, ValidationError
from pydantic_core import ErrorDetails

from tidemark.model.spelling import did_you_mean

_NAME = re.compile(r"(undefined alias|for the tag) ['\"](?!tag:).*", re.DOTALL)
"""Where a reason repeats a name behind ``*`` or ``!``, which may be a secret without quotes."""

Place = tuple[str | int, ...]
"""The place of a value: keys and positions from the top."""


class DocumentError(ValueError):
    """A text that cannot be read as one YAML document.

    Attributes:
        line: the line of the mistake, from 1.
    """

    def __init__(self, line: int, message: str) -> None:
        super().__init__(message)
        self.line = line


@dataclass(frozen=True)
class Document:
    """One YAML document.

    Attributes:
        value: its plain value; None for an empty text.
        root: its node tree; None for an empty text.
        repeated: paths and lines of keys that were written before in the same mapping, of which
            YAML would silently keep the last.
    """

    value: Any
    root: yaml.Node | None
    repeated: tuple[tuple[Place, int], ...]

    def line(self, path: Sequence[str | int]) -> int:
        """Return the line of the value at that path, or of the nearest thing around it, from 1."""
        node, line = self.root, 1
        for step in (None, *path):
            if step is not None:
                node, line = _child(node, step, line)
            elif node is not None:
                line = node.start_mark.line + 1
            if node is None:
                break
        return line


TEXTS_KEPT = 16
"""Texts whose documents a process keeps: sensors read the same rule files every few seconds, and
each time took 0.1 s."""


@lru_cache(TEXTS_KEPT)
def parse(text: str) -> Document:
    """Read one YAML document, which must not be changed: equal texts share it.

    Raises:
        DocumentError: the text is not YAML, more than one document, or names Python objects.
    """
    try:
        loader = yaml.SafeLoader(text)
        root = loader.get_single_node()
        # Merging (<<) writes into the nodes; an overridden key is no repetition: find them first.
        repeated = tuple(_repeated(root))
        value = None if root is None else loader.construct_document(root)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        reason = error.problem or error.context or "cannot be read"
        reason = _NAME.sub(r"\1; a text that begins with * or ! is put in quotes", reason)
        raise DocumentError(mark.line + 1 if mark else 1, f"not YAML: {reason}") from error
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        raise DocumentError(line, f"not YAML: {error.reason}") from error
    except ValueError as error:  # a date that does not exist, an integer like 0o9
        raise DocumentError(1, f"not YAML: {error}") from error
    except RecursionError as error:
        raise DocumentError(1, "nested too deeply") from error
    return Document(value, root, repeated)


def _child(node: yaml.Node | None, step: str | int, line: int) -> tuple[yaml.Node | None, int]:
    """Return the node one step below and its line; without one, no node and the line as it was."""
    if isinstance(node, yaml.MappingNode):
        # The last wins, as it does in the value.
        for key, value in reversed(node.value):
            if key.value == str(step):
                return value, key.start_mark.line + 1
    if isinstance(node, yaml.SequenceNode) and isinstance(step, int) and step < len(node.value):
        return node.value[step], node.value[step].start_mark.line + 1
    return None, line


def _repeated(root: yaml.Node | None) -> Iterator[tuple[Place, int]]:
    """Yield keys that occur twice in one mapping; an aliased node counts once."""
    pending: list[tuple[Place, yaml.Node]] = [] if root is None else [((), root)]
    visited: set[int] = set()
    while pending:
        path, node = pending.pop()
        if id(node) in visited:
            continue
        visited.add(id(node))
        if isinstance(node, yaml.SequenceNode):
            pending += [((*path, index), item) for index, item in enumerate(node.value)]
        if isinstance(node, yaml.MappingNode):
            keys: set[str] = set()
            for key, value in node.value:
                if isinstance(key, yaml.ScalarNode):
                    if key.value in keys:
                        yield (*path, key.value), key.start_mark.line + 1
                    keys.add(key.value)
                    pending.append(((*path, key.value), value))


T = TypeVar("T")
M = TypeVar("M", bound=BaseModel)


@dataclass(frozen=True, kw_only=True)
class Item(Generic[T]):
    """A valid entry of a file's list, with its place in the file.

    Attributes:
        value: the value made of the entry.
        file: the file as it was named.
        document: the document of the file.
        base: the place of the entry in it.
    """

    value: T
    file: Path
    document: Document
    base: Place

    def place(self, *path: str | int) -> str:
        """Return the place of a field of the entry: ``FILE:LINE: FIELD``."""
        return _place(self.file, self.document, (*self.base, *path))


def read_items(
    file: Path,
    key: str,
    noun: str,
    validate: Callable[[Any], T],
    *,
    required: bool = True,
    located: Callable[[ErrorDetails], Place] = lambda detail: detail["loc"],
    words: Callable[[ErrorDetails], str] | None = None,
    of: Any,
) -> Iterator[Item[T] | str]:
    """Return the valid entries of a file's list, and a line for each mistake in it.

    Args:
        file: mistakes name it as it is given here.
        key: the one key of the file, under which the list is.
        noun: the noun for an entry, with its article.
        validate: makes a value of an entry; it may raise pydantic's ``ValidationError``.
        required: whether a file that does not exist is a mistake; otherwise it has no entries.
        located: returns the place of pydantic's mistake in the entry.
        words: returns the text of that mistake in one line; `reason` unless given.
        of: see `items_of`.
    """
    if not required and not file.exists():
        return
    document, mistakes = read_sections(file, (key,))
    yield from mistakes
    if document:
        yield from items_of(
            file, document, key, noun, validate, located=located, words=words, of=of
        )


def read_entries(
    file: Path, key: str, model: type[M], *, required: bool = False
) -> tuple[list[M], list[str]]:
    """Return the valid entries of a file's list, and a line for each mistake in it.

    Args:
        file: mistakes name it as it is given here.
        key: the one key of the file, under which the list is.
        model: of an entry.
        required: whether a file that does not exist is a mistake; otherwise it has no entries.
    """
    validate = model.model_validate
    items = list(read_items(file, key, "an entry", validate, required=required, of=model))
    entries = [item.value for item in items if isinstance(item, Item)]
    return entries, [item for item in items if isinstance(item, str)]


def items_of(
    file: Path,
    document: Document,
    key: str,
    noun: str,
    validate: Callable[[Any], T],
    *,
    located: Callable[[ErrorDetails], Place] = lambda detail: detail["loc"],
    words: Callable[[ErrorDetails], str] | None = None,
    of: Any,
) -> Iterator[Item[T] | str]:
    """Return the valid entries of one list of a document, and a line for each mistake in it.

    Args:
        file: where the document was read.
        document: a mapping; without the key, it has no entries.
        key: the key under which the list is.
        noun: see `read_items`.
        validate: see `read_items`.
        located: see `read_items`.
        words: see `read_items`.
        of: the type of an entry, whose fields are suggested for an unknown one.
    """
    for index, entry in enumerate(document.value.get(key, ())):
        base = (key, index)
        if not isinstance(entry, dict):
            yield f"{_place(file, document, base)}: {noun} is a mapping, not {kind(entry)}"
            continue
        yield from item_at(
            file, document, base, entry, validate, located=located, words=words, of=of
        )


def item_at(
    file: Path,
    document: Document,
    base: Place,
    value: Any,
    validate: Callable[[Any], T],
    *,
    located: Callable[[ErrorDetails], Place] = lambda detail: detail["loc"],
    words: Callable[[ErrorDetails], str] | None = None,
    of: Any,
) -> Iterator[Item[T] | str]:
    """Return the content of one part of a document, or a line for each mistake; see `items_of`."""
    try:
        yield Item(value=validate(value), file=file, document=document, base=base)
    except ValidationError as error:
        for detail in error.errors(include_url=False):
            place = _place(file, document, (*base, *located(detail)))
            meant = ""
            if detail["type"] == "extra_forbidden":
                meant = did_you_mean(str(detail["loc"][-1]), field_names(of))
            yield f"{place}: {(words or reason)(detail)}{meant}"


SCHEMA_DIALECT = "https://json-schema.org/draft/2020-12/schema"
"""The dialect of the schemas that editors get."""


def schema_of_list(key: str, title: str, entry: Any) -> dict[str, Any]:
    """Return the JSON Schema of a file that is one list, for editors.

    Args:
        key: the key of the list.
        title: title of the schema.
        entry: type of its entries.
    """
    kind: Any = list[entry]  # pyright: ignore
    entries = TypeAdapter(kind).json_schema(by_alias=True)
    definitions = entries.pop("$defs", {})
    return {
        "$schema": SCHEMA_DIALECT,
        "title": title,
        "type": "object",
        "properties": {key: entries},
        "required": [key],
        "additionalProperties": False,
        "$defs": definitions,
    }


@cache
def field_names(of: Any) -> tuple[str, ...]:
    """Return the names of all fields that a value of a type may have, at any depth.

    They are kept: a schema takes 50 ms, and a file may have hundreds of mistakes.
    """
    pending: list[Any] = [TypeAdapter(of).json_schema()]
    names: dict[str, None] = {}
    while pending:
        part = pending.pop()
        if isinstance(part, dict):
            properties = part.get("properties")
            if isinstance(properties, dict):
                names |= dict.fromkeys(properties)
            pending += part.values()
        elif isinstance(part, list):
            pending += part
    return tuple(names)


def _place(file: Path, document: Document, path: Place) -> str:
    return f"{file}:{document.line(path)}: {field(path)}"


def read_sections(
    file: Path, lists: Sequence[str], others: Sequence[str] = ()
) -> tuple[Document | None, list[str]]:
    """Read a file that is a mapping with known keys, at least one of them.

    Args:
        file: mistakes name it as it is given here.
        lists: keys of lists; a file without any key misses the first one.
        others: keys of other values, which the caller checks.

    Returns:
        The document, None when it has no known key or no list where one is wanted; and the
        mistakes so far.
    """
    try:
        document = parse(file.read_text(encoding="utf-8"))
    except OSError as error:
        return None, [f"{file}: cannot be read: {error.strerror}"]
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        return None, [f"{file}:{line}: not UTF-8"]
    except DocumentError as error:
        return None, [f"{file}:{error.line}: {one_line(str(error))}"]
    mistakes = [f"{file}:{line}: {field(path)}: written twice" for path, line in document.repeated]
    mistake = _wrong_top(document.value, lists, others)
    if mistake:
        place, words = mistake
        return None, [*mistakes, f"{file}:{document.line(place)}: {words}"]
    known = ", ".join(f"`{key}`" for key in (*lists, *others))
    verb = "is" if len(lists) + len(others) == 1 else "are"
    mistakes += [
        f"{file}:{document.line([other])}: {other}: unknown field, only {known} {verb} known here"
        for other in document.value
        if other not in (*lists, *others)
    ]
    return document, mistakes


def _wrong_top(
    top: Any, lists: Sequence[str], others: Sequence[str]
) -> tuple[list[str], str] | None:
    """Return place and text of a mistake in the document as a whole; None without one."""
    key = lists[0]
    if top is None:
        return [], f"empty: write `{key}:` and a list of {key}"
    if not isinstance(top, dict):
        return [], f"a mapping with `{key}:` is wanted here, not {kind(top)}"
    if not any(text in top for text in (*lists, *others)):
        return [], f"{key}: missing"
    for text in lists:
        if text in top and not isinstance(top[text], list):
            return [text], f"{text}: a list of {text} is wanted, not {kind(top[text])}"
    return None


def reason(detail: ErrorDetails, *, show: bool = True) -> str:
    """Return pydantic's reason against a field in one line.

    Args:
        detail: one entry of ``ValidationError.errors()``.
        show: whether the value may be shown; not where it could be a secret.
    """
    context = detail.get("ctx", {})
    match detail["type"]:
        case "extra_forbidden":
            return "unknown field"
        case "missing" | "union_tag_not_found":
            return "missing"
        case "union_tag_invalid":
            known = context["expected_tags"]
            meant = did_you_mean(context["tag"], known.strip("'").split("', '"))
            return f"unknown kind {context['tag']!r}{meant or ','} known are {known}"
        case "too_short":
            return "empty, leave it out to mean everything"
        case "value_error":
            return one_line(str(context["error"]))
        case _:
            message = detail["msg"].removeprefix("Input ")
            return one_line(f"{message}, not {short(detail['input'])}" if show else message)


def field(path: Place) -> str:
    """``("rules", 2, "threshold")`` as ``rules[2].threshold``."""
    parts = (f"[{step}]" if isinstance(step, int) else f".{step}" for step in path)
    return "".join(parts).removeprefix(".")


def kind(value: Any) -> str:
    """Return the kind of a value in words, as ``a list`` or ``nothing``, else the value itself."""
    names = {dict: "a mapping", list: "a list", str: "text", type(None): "nothing"}
    return names.get(type(value), f"{short(value)}")


def short(value: Any, most: int = 60) -> str:
    """Return a value as Python shows it, cut."""
    text = repr(list(value) if isinstance(value, tuple) else value)
    return text if len(text) <= most else text[: most - 3] + "..."


def one_line(text: str) -> str:
    """Return the text with every run of white space as one space."""
    return " ".join(text.split())


def printable(text: str) -> str:
    """Return a text with all characters escaped that a terminal obeys instead of showing.

    Control characters move the cursor of a terminal, and marks of text direction reverse the text
    after them. Strangers choose the names in a text.
    """
    if text.isprintable():
        return text
    return "".join(
        char if char.isprintable() else char.encode("unicode_escape", "surrogatepass").decode()
        for char in text
    )
