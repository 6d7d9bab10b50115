"""The addresses that a snapshot expects, and its result when none responds."""

import asyncio
import json
import struct
import subprocess
import sys

import pytest

from tidemark.rocketmq.admin.responses import BrokerGroup, ClusterInfo
from tidemark.rocketmq.collector import collect, collect_snapshot
from tidemark.rocketmq.snapshot import discovery
from tidemark.rocketmq.snapshot.discovery import expected_readings
from tidemark.rocketmq.snapshot.problems import Problems
from tidemark.rocketmq.snapshot.target import ClusterTarget, DeepOptions

A = BrokerGroup(broker="broker-a", cluster="one", addresses={0: "a:0", 1: "a:1"})
B = BrokerGroup(broker="broker-b", cluster="two", addresses={0: "b:0"})
HEADLESS = BrokerGroup(broker="broker-a", cluster="one", addresses={1: "a:1", 2: "a:2"})
ACTING = BrokerGroup(
    broker="broker-a", cluster="one", addresses={1: "a:1", 2: "a:2"}, acting_master=True
)


def expect(*groups, **target):
    """(broker, id, address, is master) of who should answer, and the problems found so far."""
    problems = Problems()
    clusters = {}
    for group in groups:
        clusters.setdefault(group.cluster, []).append(group.broker)
    info = ClusterInfo({group.broker: group for group in groups}, clusters)
    readings = expected_readings(
        info, "ns:1", ClusterTarget(name_servers=("ns:1",), **target), problems
    )
    entries = [(r.broker, r.broker_id, r.address, r.is_master) for r in readings]
    return entries, [problem.message for problem in problems.rows()]


def test_every_listed_address():
    expected = [
        ("broker-a", 0, "a:0", True),
        ("broker-a", 1, "a:1", False),
        ("broker-b", 0, "b:0", True),
    ]
    assert expect(A, B) == (expected, [])


def test_one_cluster_of_several():
    assert expect(A, B, cluster="two") == ([("broker-b", 0, "b:0", True)], [])
    assert expect(A, B, cluster="three") == ([], ["no cluster 'three' here, only one, two"])


def test_brokers_of_other_clusters_are_not_remembered():
    """Memories from before ``cluster`` was set, or of ``--namesrv`` alone, hold other brokers."""
    of_all = (("broker-a", 0, "a:0"), ("broker-b", 0, "b:0"), ("broker-c", 0, "c:0"))
    alone = [("broker-b", 0, "b:0", True)]
    assert expect(A, B, cluster="two", remembered=of_all[:2]) == (alone, [])
    assert expect(A, B, cluster="two", kin=(of_all,)) == (alone, [])
    assert len(expect(B, cluster="two", kin=(of_all[1:],))[0]) == 2, "a memory of this cluster"


def test_a_cluster_without_brokers():
    assert expect() == ([], ["the name server lists no broker"])


def test_a_gone_broker_is_expected_at_its_old_address():
    entries, problems = expect(B, remembered=(("broker-a", 0, "a:0"), ("broker-a", 1, "a:1")))
    assert entries[1:] == [("broker-a", 0, "a:0", True), ("broker-a", 1, "a:1", False)]
    assert problems == []


def test_a_gone_broker_of_two_other_memories_is_expected_once():
    """A cluster that was renamed twice; one of the memories is from before the broker moved."""
    memories = [(("broker-b", 0, "b:0"), ("broker-c", 0, at)) for at in ("c:new", "c:old")]
    entries, _ = expect(B, kin=tuple(memories))
    assert entries == [("broker-b", 0, "b:0", True), ("broker-c", 0, "c:new", True)]


def test_a_moved_broker_is_expected_at_its_new_address():
    assert expect(B, remembered=(("broker-b", 0, "b:old"),))[0] == [("broker-b", 0, "b:0", True)]


PROMOTED = BrokerGroup(broker="broker-a", cluster="one", addresses={0: "a:2"})
"""A controller made broker-a's slave its master, with the master's id."""

BEFORE = (("broker-a", 0, "a:1"), ("broker-a", 2, "a:2"))


def test_after_a_promotion_the_dead_master_is_expected():
    """Under the id that is the dead one's own in this group: 2 was the other's."""
    entries, problems = expect(PROMOTED, remembered=BEFORE)
    assert entries == [("broker-a", 0, "a:2", True), ("broker-a", 1, "a:1", False)]
    assert problems == []
    assert (
        expect(PROMOTED, remembered=(("broker-a", 0, "a:2"), ("broker-a", 1, "a:1")))[0] == entries
    )


def test_two_gone_members_have_two_ids():
    """One was remembered under the id that the other took over: a row of each is expected."""
    entries = expect(B, remembered=(("broker-a", 1, "a:1"), ("broker-a", 1, "a:3")))[0]
    assert entries[1:] == [("broker-a", 1, "a:1", False), ("broker-a", 2, "a:3", False)]


def test_after_a_promotion_the_old_master_may_move():
    back = BrokerGroup(broker="broker-a", cluster="one", addresses={0: "a:2", 1: "a:9"})
    entries = expect(back, remembered=BEFORE)[0]
    assert entries == [("broker-a", 0, "a:2", True), ("broker-a", 1, "a:9", False)]


def test_swapped_members_are_expected_once_each():
    swapped = BrokerGroup(broker="broker-a", cluster="one", addresses={0: "a:2", 1: "a:1"})
    entries = expect(swapped, remembered=BEFORE)[0]
    assert entries == [("broker-a", 0, "a:2", True), ("broker-a", 1, "a:1", False)]


def test_a_renamed_broker_gets_each_request_once(scripted):
    """Its old name is missed, for what stood under it stands there no more."""
    renamed = (("broker-z", 0, "b:0"),)
    assert expect(B, remembered=renamed)[0] == [
        ("broker-b", 0, "b:0", True),
        ("broker-z", 0, "b:0", True),
    ]
    requested = []
    serve = scripted_broker({}, requested)

    async def main():
        async with scripted(serve) as at:
            alone = await collect(ClusterTarget(name_servers=(at,)))
            first = sorted(requested)
            requested.clear()
            snapshot = await collect(ClusterTarget(name_servers=(at,), remembered=(("z", 0, at),)))
            assert sorted(requested) == first
            return alone, snapshot

    alone, snapshot = asyncio.run(main())
    gone = "z 0 is gone, b has its address now"
    assert [it.message for it in snapshot.problems] == [it.message for it in alone.problems] + [
        gone
    ]
    assert [(it.broker, it.version) for it in snapshot.brokers] == [("b", None), ("z", None)]


def test_a_static_topic_is_unknown_and_no_problem(scripted, recorded):
    """Its clients commit on queues 1 and 3; what the broker counts are its queues 0 and 1."""
    member = {"clientId": "c", "language": "JAVA", "version": 479}
    group = {"connectionSet": [member], "messageModel": "CLUSTERING"}
    group["subscriptionTable"] = {"static_orders": {"topic": "static_orders", "subString": "*"}}
    bodies = {
        21: recorded("5.3.3", "21_topic_config_static_m.body"),
        26: b"brokerName=b\n",
        28: b'{"table":{"brokerVersionDesc":"V5_3_3"}}',
        43: b'{"offsetTable":{"static_orders@g":{1:5}}}',
        201: b'{"subscriptionGroupTable":{}}',
        202: b'{"offsetTable":{}}',
        203: json.dumps(group).encode(),
        402: b'{"messageRequestModeMap":{}}',
    }
    requested = []
    serve = scripted_broker(bodies, requested)

    async def main():
        async with scripted(serve) as at:
            return await collect(ClusterTarget(name_servers=(at,)))

    taken = asyncio.run(main())
    assert "static_orders" not in {topic for _, topic in requested}
    assert (taken.problems, taken.status) == ([], "COMPLETE")
    rows = [(row.queue_id, row.consumer_offset, row.pull_offset) for row in taken.consumer_offsets]
    assert rows == [(1, 5, None), (3, None, None)]
    queues = [
        (row.queue_id, row.min_offset, row.max_offset)
        for row in taken.queue_offsets
        if row.topic == "static_orders"
    ]
    assert queues == [(1, None, None), (3, None, None)]


def scripted_broker(bodies, requested):
    """A broker and name server in one; it responds ``{}`` where ``bodies`` has no request code.

    A number among ``bodies`` is a response code without a body.

    Each request, (code, topic), is appended to ``requested``.
    """

    async def serve(reader, writer):
        while True:
            frame = await reader.readexactly(int.from_bytes(await reader.readexactly(4), "big"))
            request = json.loads(frame[4:])
            requested.append((request["code"], request.get("extFields", {}).get("topic", "")))
            at = f"127.0.0.1:{writer.get_extra_info('sockname')[1]}"
            group = {"brokerAddrs": {"0": at}, "brokerName": "b", "cluster": "one"}
            info = {"brokerAddrTable": {"b": group}, "clusterAddrTable": {"one": ["b"]}}
            listing = {106: json.dumps(info).encode()}
            body = (listing | bodies).get(request["code"], b"{}")
            code, body = (body, b"") if isinstance(body, int) else (0, body)
            header = json.dumps({"code": code, "flag": 1, "opaque": request["opaque"]}).encode()
            writer.write(struct.pack(">ii", 4 + len(header) + len(body), len(header)))
            writer.write(header + body)

    return serve


BEHIND_A_PROXY = {
    21: b'{"topicConfigTable":{"t":{"readQueueNums":1,"writeQueueNums":1,"perm":6}}}',
    26: b"brokerName=b\n",
    28: b'{"table":{"brokerVersionDesc":"V5_5_0"}}',
    43: b'{"offsetTable":{"t@g":{0:5}},"pullOffsetTable":{}}',
    201: b'{"subscriptionGroupTable":{}}',
    202: b'{"offsetTable":{{"topic":"t","brokerName":"b","queueId":0}:'
    b'{"minOffset":0,"maxOffset":9}}}',
    203: 206,
    402: b'{"messageRequestModeMap":{}}',
}
"""Responses of a broker about a group that is online at a proxy only."""


def at_the_proxy(client_id="host@7@0@dn34gsc275r9", topic="t", language="JAVA"):
    member = {"clientId": client_id, "language": language, "version": 513}
    group = {"connectionSet": [member], "messageModel": "CLUSTERING"}
    group |= {"consumeType": "CONSUME_PASSIVELY"}
    group["subscriptionTable"] = {topic: {"topic": topic, "subString": "*"}}
    return {26: 3, 203: json.dumps(group).encode()}


def test_all_proxies_are_asked(scripted):
    """One that has just started, or that reaches no other, knows its own clients only."""

    async def main():
        async with (
            scripted(scripted_broker(BEHIND_A_PROXY, [])) as namesrv,
            scripted(scripted_broker({26: 3, 203: 206}, [])) as first,
            scripted(scripted_broker(at_the_proxy(), [])) as second,
        ):
            return await collect(ClusterTarget(name_servers=(namesrv,), proxies=(first, second)))

    taken = asyncio.run(main())
    assert [client.client_id for client in taken.clients] == ["host@7@0@dn34gsc275r9"]
    assert (taken.proxies_answered, taken.status) == (2, "COMPLETE")
    assert [(it.responded, it.members, it.groups) for it in taken.proxies] == [
        (True, 0, 0),
        (True, 1, 1),
    ]


def proxied(scripted, at_proxy, requested, proxies=(), **target):
    """A snapshot of `BEHIND_A_PROXY`, with one proxy and perhaps others before it."""

    async def main():
        broker = scripted_broker(BEHIND_A_PROXY, [])
        proxy = scripted_broker(at_proxy, requested)
        async with scripted(broker) as namesrv, scripted(proxy) as at:
            return await collect(
                ClusterTarget(name_servers=(namesrv,), proxies=(*proxies, at), **target)
            )

    return asyncio.run(main())


def test_a_proxy_reports_who_is_online(scripted):
    requested = []
    taken = proxied(scripted, at_the_proxy(), requested)
    assert {code for code, _ in requested} == {26, 203}
    (client,) = taken.clients
    assert (client.consumer_group, client.client_id) == ("g", "host@7@0@dn34gsc275r9")
    assert (taken.proxies_answered, taken.status) == (1, "COMPLETE")


def test_the_version_of_a_grpc_client_is_unknown(scripted):
    """The connection of a gRPC client reports the proxy's version, and so it is discarded."""
    assert proxied(scripted, at_the_proxy(), []).clients[0].version is None
    remoting = proxied(scripted, at_the_proxy("10.0.0.1@7#55", "%RETRY%g"), [])
    assert remoting.clients[0].version == "V5_5_0"


def test_a_dead_proxy_leaves_members_unknown(scripted):
    """The others are requested too; where none responds, the group must not look offline."""
    dead = ("127.0.0.1:1",)
    snapshot = proxied(scripted, at_the_proxy(), [], dead)
    assert (len(snapshot.clients), snapshot.proxies_answered, snapshot.status) == (1, 1, "PARTIAL")
    of_no_group = ["GET_CONSUMER_CONNECTION_LIST"]
    assert [it.operation for it in snapshot.problems] == of_no_group, "the other one reports it"
    first, second = snapshot.header()["proxies"]
    assert first == {
        "endpoint": "127.0.0.1:1", "responded": False, "members": None, "groups": None
    }  # fmt: skip
    assert (second["responded"], second["members"]) == (True, 1)
    broken = proxied(scripted, {26: 3, 203: 1}, [])
    named = [it.operation for it in broken.problems]
    assert "GET_CONSUMER_CONNECTION_LIST g" in named
    assert (broken.proxies_answered, broken.status) == (0, "PARTIAL")


def test_a_broker_in_place_of_a_proxy_is_named(scripted):
    """It knows only its own connections: members at a proxy would seem offline."""
    requested = []
    taken = proxied(scripted, {26: b"brokerName=b\n", 203: 206}, requested)
    assert ({code for code, _ in requested}, taken.proxies_answered) == ({26}, 0)
    named = {it.operation: it.message for it in taken.problems}
    reason = named["GET_CONSUMER_CONNECTION_LIST"]
    assert reason.startswith("this is the broker b, no proxy: `proxies` takes")
    assert named["GET_CONSUMER_CONNECTION_LIST g"] == "no proxy responded"


def test_a_cluster_without_proxies_requests_none(scripted):
    async def main():
        async with scripted(scripted_broker(BEHIND_A_PROXY, [])) as namesrv:
            return await collect(ClusterTarget(name_servers=(namesrv,)))

    taken = asyncio.run(main())
    assert (taken.proxies_answered, taken.clients, taken.status) == (None, [], "COMPLETE")
    assert taken.header()["proxies"] is None


def test_a_grpc_client_gets_no_request(scripted):
    """A broker would wait for its response for 10 s, with one of 16 threads."""
    requested = []

    async def main():
        bodies = BEHIND_A_PROXY | {203: at_the_proxy()[203]}
        async with scripted(scripted_broker(bodies, requested)) as namesrv:
            return await collect(
                ClusterTarget(name_servers=(namesrv,), deep=DeepOptions(groups=("g",)))
            )

    taken = asyncio.run(main())
    assert [client.consumer_group for client in taken.clients] == ["g"]
    assert 307 not in {code for code, _ in requested}


def test_a_name_that_ends_in_a_space_is_the_brokers(scripted):
    """4.9 registers what `broker.conf` has; the broker must not seem to be replaced by another."""
    group = {"brokerAddrs": {"0": ""}, "brokerName": "b ", "cluster": "one "}
    info = {"brokerAddrTable": {"b ": group}, "clusterAddrTable": {"one ": ["b "]}}
    config = b"brokerName=b \nbrokerClusterName=one \n"

    async def main():
        async with scripted(scripted_broker(BEHIND_A_PROXY | {26: config}, [])) as at:
            group["brokerAddrs"]["0"] = at
            listing = BEHIND_A_PROXY | {106: json.dumps(info).encode()}
            async with scripted(scripted_broker(listing, [])) as namesrv:
                return await collect(ClusterTarget(name_servers=(namesrv,)))

    taken = asyncio.run(main())
    assert (taken.status, taken.problems, taken.brokers_answered) == ("COMPLETE", [], 1)


def test_name_servers_of_two_clusters_are_reported(scripted):
    """The second one lists other brokers than those that the first one listed."""

    async def main():
        broker = scripted_broker(BEHIND_A_PROXY, [])
        other = scripted_broker(BEHIND_A_PROXY | {26: b"brokerName=z\nbrokerClusterName=two\n"}, [])
        async with scripted(broker) as namesrv, scripted(other) as at:
            return await collect(ClusterTarget(name_servers=(namesrv,), remembered=(("z", 0, at),)))

    taken = asyncio.run(main())
    assert (taken.status, taken.brokers_answered) == ("PARTIAL", 2)
    (problem,) = taken.problems
    assert problem.message.startswith("z belongs to cluster two, which the name server does not")


def test_a_name_server_that_has_just_started_is_one_problem(scripted):
    """Brokers register again within half a minute; they are of no other cluster meanwhile."""

    async def main():
        broker = BEHIND_A_PROXY | {26: b"brokerName=b\nbrokerClusterName=one\n"}
        empty = {106: b'{"brokerAddrTable":{},"clusterAddrTable":{}}'}
        async with (
            scripted(scripted_broker(broker, [])) as at,
            scripted(scripted_broker(empty, [])) as namesrv,
        ):
            remembered = (("b", 0, at),)
            return await collect(
                ClusterTarget(name_servers=(namesrv,), remembered=remembered, last_name="one")
            )

    taken = asyncio.run(main())
    assert [it.message for it in taken.problems] == ["the name server lists no broker"]
    assert (taken.status, taken.brokers_answered, taken.cluster) == ("PARTIAL", 1, "one")


def test_a_name_server_without_brokers_leaves_the_list_to_the_next(scripted):
    """As while name servers are restarted one after the other: it misleads clients meanwhile."""

    async def main():
        empty = {106: b'{"brokerAddrTable":{},"clusterAddrTable":{}}'}
        async with (
            scripted(scripted_broker(empty, [])) as started,
            scripted(scripted_broker(BEHIND_A_PROXY, [])) as namesrv,
        ):
            return await collect(ClusterTarget(name_servers=(started, namesrv)))

    taken = asyncio.run(main())
    (problem,) = taken.problems
    assert problem.message.startswith("does not list 1 of 1 broker addresses that other name serv")
    assert (taken.status, taken.brokers_answered, taken.cluster) == ("PARTIAL", 1, "one")


def listing(*brokers):
    """The body of 106 for (name, cluster, address) each; the last of a name has its addresses."""
    groups = {
        name: {"brokerAddrs": {"0": at}, "brokerName": name, "cluster": cluster}
        for name, cluster, at in brokers
    }
    clusters = {}
    for name, cluster, _ in brokers:
        clusters.setdefault(cluster, []).append(name)
    info = {"brokerAddrTable": groups, "clusterAddrTable": clusters}
    return {106: json.dumps(info).encode()}


def of(broker, cluster):
    """Return the responses of that broker."""
    return BEHIND_A_PROXY | {26: f"brokerName={broker}\nbrokerClusterName={cluster}\n".encode()}


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_brokers_that_one_name_server_knows_are_read(scripted, order):
    """A broker registers at each name server by itself, and may reach only some of them."""

    async def main():
        async with (
            scripted(scripted_broker(of("b", "one"), [])) as b,
            scripted(scripted_broker(of("c", "one"), [])) as c,
            scripted(scripted_broker(listing(("b", "one", b)), [])) as first,
            scripted(scripted_broker(listing(("c", "one", c)), [])) as second,
        ):
            servers = first, second
            taken = await collect(
                ClusterTarget(name_servers=tuple(servers[item] for item in order))
            )
            return taken, servers

    taken, servers = asyncio.run(main())
    assert (taken.status, taken.brokers_answered) == ("PARTIAL", 2)
    assert {row.broker for row in taken.queue_offsets} == {"b", "c"}
    assert {problem.endpoint for problem in taken.problems} == set(servers)
    assert all("does not list 1 of 2 broker addr" in problem.message for problem in taken.problems)


def test_name_servers_may_differ_in_other_clusters(scripted):
    async def main():
        async with scripted(scripted_broker(of("b", "one"), [])) as b:
            other = listing(("b", "one", b), ("z", "two", "127.0.0.1:1"))
            async with (
                scripted(scripted_broker(listing(("b", "one", b)), [])) as first,
                scripted(scripted_broker(other, [])) as second,
            ):
                return await collect(ClusterTarget(name_servers=(first, second), cluster="one"))

    taken = asyncio.run(main())
    assert (taken.status, taken.problems, taken.brokers_expected) == ("COMPLETE", [], 1)


@pytest.mark.parametrize(
    ("wanted", "status", "answered"), [("one", "FAILED", 0), ("two", "PARTIAL", 1)]
)
def test_a_broker_name_in_two_clusters_is_a_problem(scripted, wanted, status, answered):
    """The name server has the addresses of whichever registered last, here of cluster two."""

    async def main():
        async with scripted(scripted_broker(of("b", "two"), [])) as b:
            body = listing(("b", "one", b), ("b", "two", b))
            async with scripted(scripted_broker(body, [])) as namesrv:
                return await collect(ClusterTarget(name_servers=(namesrv,), cluster=wanted))

    taken = asyncio.run(main())
    assert (taken.status, taken.brokers_answered) == (status, answered)
    named = [it.message for it in taken.problems]
    assert named[0].startswith("b is in the clusters one, two: brokers of one name server need")
    assert named[1:] == ([] if answered else ["b at this address is of cluster two, not one"]), (
        "and nothing of it is stored under the name of the other cluster"
    )
    assert bool(taken.queue_offsets) == bool(answered)


def test_a_broker_that_contradicts_the_registry_is_a_problem(scripted):
    async def main():
        async with (
            scripted(scripted_broker(of("b", "two"), [])) as b,
            scripted(scripted_broker(of("c", "two"), [])) as c,
        ):
            body = listing(("b", "one", b), ("c", "two", c))
            async with scripted(scripted_broker(body, [])) as namesrv:
                return await collect(ClusterTarget(name_servers=(namesrv,)))

    taken = asyncio.run(main())
    (problem,) = taken.problems
    assert problem.message == "b belongs to cluster two, the name server lists it in one"
    assert taken.status == "PARTIAL"


def test_topics_that_may_not_be_read_are_named(scripted):
    """Problems keep only the first denied request, here about a group."""

    async def main():
        denied = BEHIND_A_PROXY | {202: 16, 203: 16}
        async with scripted(scripted_broker(denied, [])) as namesrv:
            return await collect(ClusterTarget(name_servers=(namesrv,)))

    taken = asyncio.run(main())
    assert (taken.status, taken.queue_offsets) == ("PARTIAL", [])
    named = {it.operation: it.message for it in taken.problems}
    assert named["GET_TOPIC_STATS_INFO t"] == "the offsets of 1 topics are unknown"


def test_a_slave_does_not_replace_a_dead_master():
    entries, problems = expect(HEADLESS)
    assert [is_master for *_, is_master in entries] == [False, False]
    assert problems == ["broker-a has no master, only slaves are registered"]


def test_an_acting_master_is_read():
    entries, problems = expect(ACTING, remembered=(("broker-a", 0, "a:0"),))
    assert entries == [
        ("broker-a", 1, "a:1", True),
        ("broker-a", 2, "a:2", False),
        ("broker-a", 0, "a:0", False),
    ]
    assert problems == []


@pytest.mark.parametrize(
    ("endpoint", "reason"),
    [
        ("127.0.0.1:1", "connection refused"),
        ("nowhere.invalid:9876", "not known"),
        ("no port", "not HOST:PORT"),
    ],
)
def test_no_name_server(endpoint, reason):
    target = ClusterTarget(name_servers=(endpoint,), remembered=(("broker-a", 0, "a:0"),))
    snapshot = collect_snapshot(target)
    assert (snapshot.status, snapshot.cluster) == ("FAILED", endpoint)
    (problem,) = snapshot.problems
    assert (problem.endpoint, problem.operation) == (endpoint, "GET_BROKER_CLUSTER_INFO")
    assert reason in problem.message and problem.code is None
    assert (snapshot.brokers_expected, snapshot.brokers_answered) == (1, 0)
    assert snapshot.finished_at and snapshot.finished_at >= snapshot.observed_at


def test_a_broker_in_place_of_a_name_server_is_named(scripted):
    async def main():
        async with scripted(scripted_broker({106: 3}, [])) as at:
            return await collect(ClusterTarget(name_servers=(at,)))

    taken = asyncio.run(main())
    (problem,) = taken.problems
    assert (taken.status, problem.code) == ("FAILED", 3)
    assert problem.message.endswith("this is no name server, but a broker, a proxy or a controller")


def test_every_name_server_is_tried():
    snapshot = collect_snapshot(
        ClusterTarget(name_servers=("127.0.0.1:1", "127.0.0.1:2"), name="mine")
    )
    assert [problem.endpoint for problem in snapshot.problems] == ["127.0.0.1:1", "127.0.0.1:2"]
    assert (snapshot.status, snapshot.cluster) == ("FAILED", "mine")


def test_an_unreachable_name_server(scripted):
    async def silence(reader, writer):
        await reader.read()

    async def main():
        async with scripted(silence) as endpoint:
            return await collect(ClusterTarget(name_servers=(endpoint,), request_timeout=0.2))

    snapshot = asyncio.run(main())
    assert snapshot.status == "FAILED"
    assert snapshot.problems[0].message == "no response within 0.2 s"


def test_an_unreachable_name_server_leaves_time_for_the_next(scripted):
    requested = []

    async def silence(reader, writer):
        await reader.read()

    async def empty(reader, writer):
        requested.append(await reader.read(1))
        writer.close()

    async def main():
        async with scripted(silence) as first, scripted(empty) as second:
            return await collect(ClusterTarget(name_servers=(first, second), total_timeout=0.6))

    snapshot = asyncio.run(main())
    assert requested == [b"\0"]
    assert [problem.message for problem in snapshot.problems] == [
        "no response within 0.3 s",
        "closed the connection without a response, does it want TLS?",
    ]


def test_a_dead_name_server_costs_little_beside_one_that_responds(scripted, monkeypatch):
    """It is waited for no longer than `OTHERS_SECONDS`, and the brokers have the rest."""
    monkeypatch.setattr(discovery, "OTHERS_SECONDS", 0.2)

    async def silence(reader, writer):
        await reader.read()

    async def main():
        async with (
            scripted(silence) as dead,
            scripted(scripted_broker(BEHIND_A_PROXY, [])) as namesrv,
        ):
            target = ClusterTarget(
                name_servers=(dead, namesrv), request_timeout=60, total_timeout=120
            )
            return await collect(target), dead

    taken, dead = asyncio.run(main())
    assert (taken.status, taken.brokers_answered) == ("PARTIAL", 1)
    (problem,) = taken.problems
    assert problem.endpoint == dead and problem.message.startswith("no response within")
    assert taken.duration_ms < 30_000


def test_importing_the_collector_is_light():
    heavy = ["pandas", "pyarrow", "pydantic", "rich", "pyspark", "dagster", "numpy", "sqlalchemy"]
    code = (
        f"import sys, tidemark.rocketmq.collector; print([m for m in {heavy} if m in sys.modules])"
    )
    process = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert process.stdout.strip() == "[]"
