"""YAML with the line of each value, and with the keys that occur twice."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import yaml

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


def parse(text: str) -> Document:
    """Read one YAML document.

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
