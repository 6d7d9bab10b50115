"""The networks of a cluster: listed addresses outside of them get no connection or account."""

import asyncio
import json
from functools import partial

import pytest

from tests.support.hostile_servers import list_brokers, serve
from tidemark.rocketmq.collector import collect
from tidemark.rocketmq.deep.broker_metrics import read_broker_metrics
from tidemark.rocketmq.snapshot.broker_reading import BrokerReading
from tidemark.rocketmq.snapshot.problems import Problems
from tidemark.rocketmq.snapshot.target import ClusterTarget
from tidemark.rocketmq.wire.addresses import Networks
from tidemark.rocketmq.wire.client import RemotingClient
from tidemark.rocketmq.wire.security import Credentials, Security
from tidemark.settings.basics import SettingsError
from tidemark.settings.clusters import Cluster, configured
from tidemark.settings.environment import Settings
from tidemark.settings.home import Home

ACCOUNT = Credentials("the-access-key", "the-secret-key")


@pytest.mark.parametrize(
    ("networks", "inside", "outside"),
    [
        ("10.0.0.0/8", ["10.1.2.3", "::ffff:10.1.2.3"], ["11.0.0.1", "::ffff:11.0.0.1", "fd00::1"]),
        ("10.0.0.1 fd00::/8", ["10.0.0.1", "fd12::1", "fd12::1%eth0"], ["10.0.0.2", "fe80::1"]),
        ("10.0.0.0/8,\n192.168.0.0/16", ["192.168.7.7", "10.0.0.1"], ["192.169.0.1"]),
    ],
)
def test_addresses_of_networks(networks, inside, outside):
    assert Networks.of(networks).within([*inside, *outside]) == inside


@pytest.mark.parametrize(
    "text", ["", " ", "10.0.0.1/8", "brokers", "10.0.0.0/33", "10.0.0.0/8;::1"]
)
def test_a_text_that_is_no_network(text):
    with pytest.raises(ValueError, match="network"):
        Networks.of(text)


@pytest.mark.slow
def test_an_advertised_address_outside_gets_no_connection_and_no_account(scripted):
    """The hostile one listens at another address of loopback, which the name server lists."""
    connected = []

    async def main():
        async def note(reader, writer):
            connected.append(await reader.read(4096))

        outside = await asyncio.start_server(note, "127.0.0.77", 0)
        host, port = outside.sockets[0].getsockname()
        async with scripted(partial(serve, "a", {})) as honest:
            listed = {"a": honest, "b": f"{host}:{port}"}
            async with scripted(partial(list_brokers, listed)) as server:
                security = Security(ACCOUNT, networks=Networks.of("127.0.0.1/32"))
                target = ClusterTarget(name_servers=(server,), security=security, total_timeout=30)
                taken = await collect(target)
                trusting = await collect(
                    ClusterTarget(name_servers=(server,), security=Security(ACCOUNT))
                )
        outside.close()
        return taken, trusting, f"{host}:{port}"

    taken, trusting, address = asyncio.run(main())
    assert (taken.status, taken.brokers_answered) == ("PARTIAL", 1)
    (problem,) = taken.problems
    assert problem.endpoint == address
    assert "127.0.0.77 is outside of the networks of brokers (127.0.0.1/32)" in problem.message
    # Without networks it gets the account: the attempt is a real one.
    assert trusting.status == "PARTIAL" and b"the-access-key" in b"".join(connected)
    assert len(connected) == 1


def test_a_name_server_outside_is_not_connected_to():
    security = Security(ACCOUNT, networks=Networks.of("10.0.0.0/8"))
    taken = asyncio.run(collect(ClusterTarget(name_servers=("127.0.0.1:1",), security=security)))
    (problem,) = taken.problems
    assert taken.status == "FAILED" and "outside of the networks" in problem.message


def test_metrics_of_a_broker_outside_are_not_read():
    reading = BrokerReading(broker="broker-a", broker_id=0, address="127.0.0.1:1", is_master=True)
    reading.config = {"metricsExporterType": "PROM"}
    problems = Problems()

    async def main():
        security = Security(networks=Networks.of("10.0.0.0/8"))
        async with RemotingClient(security=security) as client:
            await read_broker_metrics(client, [reading], problems)

    asyncio.run(main())
    (problem,) = problems.rows()
    assert "outside of the networks" in problem.message


def test_networks_of_the_environment_and_of_the_file(tmp_path, monkeypatch):
    text = {"clusters": [{"name": "a", "namesrv": "h:1"}, {"name": "b", "namesrv": "i:1"}]}
    text["clusters"][1]["networks"] = ["10.2.0.0/16", "10.3.0.0/16"]
    (tmp_path / "clusters.yaml").write_text(json.dumps(text))
    of_all, own = configured(Home.of(tmp_path))
    assert of_all.security().networks is None
    monkeypatch.setenv("TIDEMARK_BROKER_NETWORKS", "10.1.0.0/16 fd00::/8")
    assert Settings.read().broker_networks == "10.1.0.0/16 fd00::/8"
    assert str(of_all.target().security.networks) == "10.1.0.0/16, fd00::/8"
    assert str(own.target().security.networks) == "10.2.0.0/16, 10.3.0.0/16"
    monkeypatch.setenv("TIDEMARK_BROKER_NETWORKS", "10.1.0.0/33")
    for read in (Settings.read, Cluster(namesrv=("h:1",)).security):
        with pytest.raises(SettingsError, match=r"TIDEMARK_BROKER_NETWORKS.*10\.1\.0\.0/33"):
            read()
    text["clusters"][1]["networks"] = "10.1.0.1/16"
    (tmp_path / "clusters.yaml").write_text(json.dumps(text))
    with pytest.raises(SettingsError, match=r"clusters\[1\].networks: .*host bits set"):
        configured(Home.of(tmp_path))
