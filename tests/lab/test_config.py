"""Configuration files of nodes, read back as RocketMQ reads them."""

import xml.etree.ElementTree as ElementTree
from pathlib import Path

from lab import config, layout

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
