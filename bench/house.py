"""Size and style of the code, counted: modules, lines, names, words, and ways around the types.

``python -m bench.house [CHECKOUT ...]`` prints a column for each checkout, by default this one.
"""

import argparse
import ast
import re
import subprocess
import tokenize
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from bench.costs import ROOT
from bench.soak import print_line

NOT_PRODUCT = ("tests", "bench", "docs")
"""Folders whose modules do not count as product."""

FRAGMENT = re.compile(r"(Of|Those|What|Who|Which)\b")
"""Beginning of a docstring or comment that is no sentence."""

EMPTY_NAMES = ("found", "each")
"""Names that state nothing about their values."""


@dataclass(frozen=True)
class Module:
    """A tracked Python file.

    Attributes:
        path: below the checkout.
        text: its code.
    """

    path: Path
    text: str

    @property
    def is_product(self) -> bool:
        """Whether it is neither a test, nor a measurement, nor made for the docs."""
        return self.path.parts[0] not in NOT_PRODUCT

    @cached_property
    def nodes(self) -> list[ast.AST]:
        """All nodes of its syntax tree."""
        return list(ast.walk(ast.parse(self.text)))

    def prose(self) -> Iterator[str]:
        """Yield each docstring, and each block of comments from its first word on."""
        for node in self.nodes:
            body = getattr(node, "body", None)
            for statement in body if isinstance(body, list) else ():
                if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant):
                    yield str(statement.value.value).strip()
        line = -1
        for token in tokenize.generate_tokens(iter(self.text.splitlines(True)).__next__):
            if token.type == tokenize.COMMENT:
                if token.start[0] != line + 1:
                    yield token.string.lstrip("# ")
                line = token.start[0]

    def names(self) -> Iterator[str]:
        """Yield each use of a name, as a variable or as a parameter."""
        for node in self.nodes:
            if isinstance(node, ast.Name):
                yield node.id
            elif isinstance(node, ast.arg):
                yield node.arg


def main() -> None:
    """Print a table with a row for each count."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("checkouts", type=Path, nargs="*", default=[ROOT])
    options = parser.parse_args()
    columns = [counts(checkout) for checkout in options.checkouts]
    for name in columns[0]:
        print_line(f"{name:<52}" + "".join(f"{column[name]:>9,}" for column in columns))


def counts(checkout: Path) -> dict[str, int]:
    """Return the counts of a checkout, by what is counted."""
    modules = _modules(checkout)
    product = [module for module in modules if module.is_product]
    stems = Counter(module.path.stem for module in product if module.path.stem != "__init__")
    names = Counter(name for module in modules for name in module.names())
    text = "\n".join(module.text for module in modules)
    return {
        "product modules": len(product),
        "product lines": sum(module.text.count("\n") for module in product),
        "names of product modules that stand twice": sum(
            1 for count in stems.values() if count > 1
        ),
        "top-level packages of product": len({module.path.parts[0] for module in product}),
        "docstrings and comments that begin with a fragment": sum(
            1 for module in modules for prose in module.prose() if FRAGMENT.match(prose)
        ),
        "uses of 'found' and 'each' as names": sum(names[name] for name in EMPTY_NAMES),
        "enums of product": sum(
            1
            for module in product
            for node in module.nodes
            if isinstance(node, ast.ClassDef)
            and any(ast.unparse(base).endswith("Enum") for base in node.bases)
        ),
        "uses of Any in product": sum(
            1 for module in product for name in module.names() if name == "Any"
        ),
        "pyright: ignore": text.count("pyright: " + "ignore"),
        "monkeypatch.setattr": text.count("monkeypatch." + "setattr"),
    }


def _modules(checkout: Path) -> list[Module]:
    listed = subprocess.run(
        ["git", "ls-files", "*.py"], cwd=checkout, capture_output=True, text=True, check=True
    )
    paths = [Path(name) for name in listed.stdout.splitlines()]
    return [Module(path, (checkout / path).read_text()) for path in paths]


if __name__ == "__main__":
    main()
