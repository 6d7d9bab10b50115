"""Configuration files of nodes, read back as RocketMQ reads them."""

import json
import xml.etree.ElementTree as ElementTree
from pathlib import Path

from tidemark.lab import config, layout

HOME = Path("/labs/one")


def read(text: str) -> dict[str, str]:
    """Properties as Java reads them, as far as the lab writes them."""
    pairs = (line.partition("=") for line in text.splitlines())
    return {key: value.replace("\\\\", "\\") for key, _, value in pairs}


def node(name: str) -> layout.Node:
    nodes = layout.plan(30000, brokers=2, slaves=True)
    return next(node for node in nodes if node.name == name)


def test_master_and_slave_differ_in_role_id_and_ports():
    def properties(name: str) -> dict[str, str]:
        return read(config.broker_config(node(name), "127.0.0.1:30000", HOME, {}))

    master, slave = properties("broker-b"), properties("broker-b-slave")
    different = {key for key in master | slave if master.get(key) != slave.get(key)}
    assert different == {"brokerRole", "brokerId", "listenPort", "haListenPort"}
    assert (master["brokerRole"], master["brokerId"]) == ("ASYNC_MASTER", "0")
    assert (slave["brokerRole"], slave["brokerId"]) == ("SLAVE", "1")


def test_a_controller_gives_roles_and_ids():
    nodes = layout.plan(30000, brokers=1, slaves=True, controller=True)
    namesrv, *brokers = nodes
    controller = read(config.namesrv_config(namesrv, HOME))
    assert controller["enableControllerInNamesrv"] == "true"
    assert controller["controllerDLegerPeers"] == "n0-127.0.0.1:30005"
    for broker in brokers:
        properties = read(config.broker_config(broker, "127.0.0.1:30000", HOME, {}))
        assert properties["controllerAddr"] == "127.0.0.1:30005"
        assert not properties.keys() & {"brokerRole", "brokerId"}


def test_a_proxy_has_its_file_and_perhaps_a_broker():
    for proxy, mode, texts in (
        ("cluster", "CLUSTER", {"proxy.json"}),
        ("local", "LOCAL", {"proxy.json", "node.properties"}),
    ):
        nodes = layout.plan(30000, brokers=1, slaves=False, proxy=proxy)
        (gate,) = (item for item in nodes if item.grpc_port is not None)
        files = config.files(gate, "127.0.0.1:30000", HOME, {})
        assert files.keys() & {"proxy.json", "node.properties"} == texts
        assert (
            json.loads(files["proxy.json"]).items()
            >= {
                "proxyMode": mode,
                "grpcServerPort": 30003,
                "remotingListenPort": 30004,
            }.items()
        )
        line = config.command(gate, "java", Path("/jars"), HOME)
        assert "org.apache.rocketmq.proxy.ProxyStartup" in line
        assert line.count(f"{HOME}/node.properties") == (mode == "LOCAL")


def test_addresses_are_local():
    properties = read(config.broker_config(node("broker-a"), "127.0.0.1:30000", HOME, {}))
    for key in ("bindAddress", "brokerIP1", "brokerIP2"):
        assert properties[key] == "127.0.0.1"
    assert read(config.namesrv_config(node("namesrv"), HOME))["bindAddress"] == "127.0.0.1"


def test_extra_configuration_wins():
    extra = {"slaveReadEnable": "true", "mappedFileSizeCommitLog": "1048576"}
    properties = read(config.broker_config(node("broker-a"), "127.0.0.1:30000", HOME, extra))
    assert properties.items() >= extra.items()


def test_properties_keep_backslashes():
    assert read(config.properties({"path": r"C:\lab"})) == {"path": r"C:\lab"}


def test_every_version_finds_its_logging():
    texts = config.files(node("broker-a"), "127.0.0.1:30000", HOME, {})
    # 4.9 dies without the files under conf/.
    assert texts.keys() >= {"logback.xml", "conf/logback_broker.xml", "conf/logback_namesrv.xml"}
    files = [e.text for e in ElementTree.fromstring(texts["logback.xml"]).iter("file")]
    assert files == [f"{HOME}/logs/node.log", f"{HOME}/logs/stats.log"]
