"""Commands run in this process, where only their output matters and no process start."""

import contextlib
import io
import os
import sys
from pathlib import Path
from unittest import mock

import pytest

from tests.support.homes import environment
from tidemark.cli.main import main
from tidemark.settings.home import Home


def output_of(home: Home, *arguments: str, code: int = 0, **settings: str) -> str:
    """Return what a command that ends with this code prints: its output, or why there is none."""
    out, err, text = io.StringIO(), io.StringIO(), 0
    with (
        mock.patch.dict(os.environ, environment(home, **settings), clear=True),
        mock.patch.object(sys, "argv", ["tidemark", *arguments]),
        contextlib.chdir(home.path if home.path.is_dir() else Path.cwd()),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
    ):
        try:
            main()
        except SystemExit as ended:
            text = ended.code or 0
        except BaseException as error:
            pytest.fail(f"a traceback: {error!r}")
    assert text == code, err.getvalue()
    assert "Traceback" not in err.getvalue()
    return out.getvalue() if code == 0 else err.getvalue()
