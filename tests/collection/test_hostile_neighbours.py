"""An honest cluster beside hostile name servers and brokers, collected by one real process.

Whatever the hostile one does costs it its own snapshots at most: each names the bound that it met,
none is complete, and the honest one has a complete snapshot for each of them or more.
"""

import pytest

from bench.hostile_brokers import measure

BOUNDS = {
    "10,000 unreachable addresses": "10000 broker addresses: 9000 are left out (max_brokers",
    "10,000 host names": "10000 broker addresses: 9000 are left out (max_brokers",
    "1 million topics without queues": "a frame of 57888987 bytes (limit 33554432)",
    "10 million topics": "bytes (limit 33554432)",
    "100,000 topics, no response about any": "requests failed)",
    "a byte a second": "no response within",
    "bodies for the slow parser": "too large",
    "20 million rows from 20 kB": "the members of a snapshot have at most",
    "a flood of frames": "may receive 192 MiB (max_mib in clusters.yaml)",
}
"""By attack the bound that a problem of the hostile cluster names."""

DESCRIPTORS = 400
"""Open files of the process; a connection to each of a thousand addresses would take more."""


@pytest.mark.slow
@pytest.mark.parametrize("attack", BOUNDS)
def test_an_honest_cluster_keeps_its_interval(attack: str) -> None:
    cost = measure(attack, snapshots=3, longest=180, descriptors=DESCRIPTORS)
    assert len(cost.hostile) >= 3, cost
    assert not [line for line in cost.hostile if " COMPLETE " in line]
    assert any(BOUNDS[attack] in problem for problem in cost.problems), cost.problems[:5]
    assert [line for line in cost.honest if " COMPLETE " not in line] == []
    assert cost.complete >= len(cost.hostile)
    assert not [line for line in cost.complaints if "honest: a snapshot is lost" in line]
    assert cost.descriptors < DESCRIPTORS // 2 + 100
    assert cost.memory < 700
