"""Where the nodes of a lab listen.

The tempting simplification is "broker i at P + 10 i": the VIP channel (listen port - 2) and the HA
port of neighbours would then meet.
"""

import socket

import pytest

from tidemark.lab import layout
from tidemark.lab.layout import LabError


def test_documented_layout():
    nodes = {node.name: node for node in layout.plan(30000, brokers=2, slaves=True)}
    assert {name: node.port for name, node in nodes.items()} == {
        "namesrv": 30000,
        "broker-a": 30010,
        "broker-b": 30020,
        "broker-a-slave": 30015,
        "broker-b-slave": 30025,
    }
    assert nodes["broker-a"].ports == (30008, 30010, 30011)
    assert (nodes["broker-a-slave"].broker, nodes["broker-a-slave"].broker_id) == ("broker-a", 1)


def test_no_port_is_used_twice_in_the_largest_lab():
    nodes = layout.plan(30000, brokers=layout.MAX_BROKERS, slaves=True)
    ports = [port for node in nodes for port in node.ports]
    assert len(ports) == len(set(ports)) == 1 + 2 * 3 * layout.MAX_BROKERS


@pytest.mark.parametrize("proxy", ["cluster", "local"])
def test_a_proxy_and_a_controller_use_ports_of_their_own(proxy):
    nodes = layout.plan(
        30000, brokers=layout.MAX_BROKERS, slaves=True, proxy=proxy, controller=True
    )
    ports = [port for node in nodes for port in node.ports]
    assert len(ports) == len(set(ports)) == 1 + 2 * 3 * layout.MAX_BROKERS + 2 + 1
    (gate,) = (node for node in nodes if node.grpc_port is not None)
    assert gate.grpc_address == "127.0.0.1:30003"
    assert (gate.name, gate.role) == (
        ("proxy", "proxy") if proxy == "cluster" else ("broker-a", "broker")
    )


def test_a_slave_starts_after_every_master():
    ids = [node.broker_id for node in layout.plan(30000, brokers=3, slaves=True)]
    assert ids == [None, 0, 0, 0, 1, 1, 1]


@pytest.mark.parametrize(
    ("port_base", "brokers", "message"),
    [
        pytest.param(30000, 0, "1 to 26 brokers, not 0", id="no broker"),
        pytest.param(30000, 27, "1 to 26 brokers, not 27", id="no letter left"),
        pytest.param(80, 1, "--port-base", id="privileged port"),
        pytest.param(65530, 1, "--port-base", id="past the last port"),
    ],
)
def test_impossible_labs_are_refused(port_base, brokers, message):
    with pytest.raises(LabError, match=message):
        layout.plan(port_base, brokers, slaves=False)


def test_a_taken_port_is_named_with_its_node():
    with socket.socket() as owner:
        owner.bind(("127.0.0.1", 0))
        owner.listen()
        port = owner.getsockname()[1]
        with pytest.raises(LabError, match=rf"port {port} \(needed by broker-a\) is in use"):
            layout.require_free_ports([layout.Node(name="broker-a", port=port)])


def test_free_port_base_is_free_for_every_node():
    base = layout.free_port_base(brokers=3, slaves=True)
    layout.require_free_ports(layout.plan(base, brokers=3, slaves=True))
