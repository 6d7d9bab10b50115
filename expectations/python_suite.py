"""Execution of a Python file that creates an `ExpectationSuite`."""

import runpy
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import Any

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

    from expectations.gx_context import great_expectations_context

    # A suite needs its context when an expectation is added.
    great_expectations_context(InMemoryStoreBackendDefaults())
    try:
        compile(text, str(file), "exec")
        names = runpy.run_path(str(file))
        suites = {
            id(each): each for each in names.values() if isinstance(each, gx.ExpectationSuite)
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
