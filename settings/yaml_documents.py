"""The one reader of settings files: valid entries, and one line for each mistake with its place.

Every settings file is a mapping with a list under a key, checked by pydantic; rule files have more
than one key. A mistake is one line, ``FILE:LINE: FIELD: mistake``, and all mistakes of a file are
reported at once.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from settings.yaml_positions import Document, DocumentError, Place, parse

T = TypeVar("T")
M = TypeVar("M", bound=BaseModel)


@dataclass(frozen=True)
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
    """
    if not required and not file.exists():
        return
    document, mistakes = read_sections(file, (key,))
    yield from mistakes
    if document:
        yield from items_of(file, document, key, noun, validate, located=located, words=words)


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
    found = list(read_items(file, key, "an entry", model.model_validate, required=required))
    entries = [each.value for each in found if isinstance(each, Item)]
    return entries, [each for each in found if isinstance(each, str)]


def items_of(
    file: Path,
    document: Document,
    key: str,
    noun: str,
    validate: Callable[[Any], T],
    *,
    located: Callable[[ErrorDetails], Place] = lambda detail: detail["loc"],
    words: Callable[[ErrorDetails], str] | None = None,
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
    """
    for index, entry in enumerate(document.value.get(key, ())):
        base = (key, index)
        if not isinstance(entry, dict):
            yield f"{_place(file, document, base)}: {noun} is a mapping, not {kind(entry)}"
            continue
        yield from item_at(file, document, base, entry, validate, located=located, words=words)


def item_at(
    file: Path,
    document: Document,
    base: Place,
    value: Any,
    validate: Callable[[Any], T],
    *,
    located: Callable[[ErrorDetails], Place] = lambda detail: detail["loc"],
    words: Callable[[ErrorDetails], str] | None = None,
) -> Iterator[Item[T] | str]:
    """Return the content of one part of a document, or a line for each mistake; see `items_of`."""
    try:
        yield Item(validate(value), file, document, base)
    except ValidationError as error:
        for detail in error.errors(include_url=False):
            place = _place(file, document, (*base, *located(detail)))
            yield f"{place}: {(words or reason)(detail)}"


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
    if not any(each in top for each in (*lists, *others)):
        return [], f"{key}: missing"
    for each in lists:
        if each in top and not isinstance(top[each], list):
            return [each], f"{each}: a list of {each} is wanted, not {kind(top[each])}"
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
            return f"unknown kind {context['tag']!r}, known are {context['expected_tags']}"
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
