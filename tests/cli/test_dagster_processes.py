"""Dagster's processes are ended by their ids, which the system gives again."""

import subprocess

from tidemark.cli.dagster_processes import stop


def test_a_process_that_has_the_id_of_an_ended_one_is_left_alone() -> None:
    ended, other = subprocess.Popen(["true"]), subprocess.Popen(["sleep", "600"])
    try:
        ended.wait()
        ended.pid = other.pid  # as the system may give it again
        stop([ended])
        assert other.poll() is None
    finally:
        other.kill()
        other.wait()
