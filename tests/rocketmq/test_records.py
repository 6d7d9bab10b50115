"""Records of a snapshot describe themselves in a line for people."""

import pytest

from tidemark.rocketmq.records import LeftOut
from tidemark.settings.clusters import DeepLimits, Limits


@pytest.mark.parametrize("part", ["lite_topics", "clients", "counters", "tags", "store_times"])
def test_what_a_limit_left_out_names_a_setting_that_exists(part):
    line = LeftOut(part, "10.0.0.1:10911", 37).line
    assert line.startswith("37 ") and " at 10.0.0.1:10911 were left out (" in line
    setting = line.partition("(")[2].partition(" in clusters.yaml)")[0]
    assert setting in {*Limits.model_fields, *DeepLimits.model_fields}


def test_a_limit_of_a_cluster_has_no_address():
    assert LeftOut("clients", None, 2).line == (
        "2 requests to clients were left out (max_clients in clusters.yaml)"
    )
