"""What the environment configures."""

import dagster as dg
import pytest

from assets.resources import ClientMachineResource
from orchestration.resources import resources
from spark.capacity import Machine


def machine(tmp_path, **settings):
    found = resources({"TIDEMARK_HOME": str(tmp_path)} | settings)["client_machine"]
    assert isinstance(found, ClientMachineResource)
    return found.machine()


def test_what_consumers_run_on_is_known_when_both_are_set(tmp_path):
    both = {"TIDEMARK_CLIENT_CORES": "4", "TIDEMARK_CLIENT_COMPUTE_MS": "2.5"}
    assert machine(tmp_path, **both) == Machine(4.0, 2.5)
    assert machine(tmp_path) is None
    for name in both:
        assert machine(tmp_path, **{name: both[name]}) is None


@pytest.mark.parametrize("text", ["many", "0", "-1", "inf", "nan"])
def test_what_is_no_number_is_named(tmp_path, text):
    with pytest.raises(dg.Failure, match=f"TIDEMARK_CLIENT_CORES={text}: a number above 0"):
        machine(tmp_path, TIDEMARK_CLIENT_CORES=text)
