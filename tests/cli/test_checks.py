"""A check of the doctor prints one line, whatever it meets."""

import time
from threading import Event

import typer

from tidemark.cli.checks import Check
from tidemark.cli.invocation import CommandError


def test_a_check_that_never_ends_is_given_up(capsys):
    never, started = Event(), time.monotonic()
    check = Check(
        name="catalog", run=lambda: str(never.wait()), uses="TIDEMARK_CATALOG_URI", seconds=0.2
    )
    assert not check.passes()
    assert time.monotonic() - started < 5
    line = "FAIL  catalog  no response within 0.2 s; check TIDEMARK_CATALOG_URI\n"
    assert capsys.readouterr().out == line
    never.set()


def test_a_failure_is_its_own_text(capsys):
    def fail(error: Exception) -> str:
        raise error

    assert not Check(name="brokers", run=lambda: fail(typer.BadParameter("no HOST:PORT"))).passes()
    assert not Check(name="landing", run=lambda: fail(CommandError("no bucket"))).passes()
    lines = ["FAIL  brokers  no HOST:PORT", "FAIL  landing  no bucket"]
    assert capsys.readouterr().out.splitlines() == lines


def test_a_thread_of_a_check_sees_what_the_command_read(capsys):
    assert Check(name="python", run=lambda: "3.11").passes()
    assert capsys.readouterr().out == "ok    python   3.11\n"
