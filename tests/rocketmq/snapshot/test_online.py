"""Online members: the brokers where each is, and the broker that forwards requests to it."""

from tidemark.rocketmq.admin.responses import Connection, ConsumerConnection
from tidemark.rocketmq.snapshot.online import homes, merged_online


def connection(*client_ids):
    members = [
        Connection(client_id=it, client_address="127.0.0.1:5", language="JAVA", version="V5_3_3")
        for it in client_ids
    ]
    return ConsumerConnection(
        connections=members,
        consume_type="CONSUME_PASSIVELY",
        message_model="CLUSTERING",
        consume_from_where="",
        subscriptions={},
    )


def test_a_client_gets_requests_through_one_broker():
    online = merged_online(
        [{"g": {"broker-b": connection("one", "two")}}, {"g": {"broker-a": connection("one")}}]
    )
    texts = homes(online, {"broker-a", "broker-b"})
    assert texts == {("g", "one"): "broker-a", ("g", "two"): "broker-b"}


def test_a_proxy_is_no_broker_through_which_clients_get_requests():
    """Its place in the order of names is before that of a broker in Kubernetes."""
    both = ["proxy 10.0.0.9:8080", "rocketmq-broker-0"]
    online = merged_online([{"g": {name: connection("one")}} for name in both])
    assert homes(online, {"rocketmq-broker-0"}) == {("g", "one"): "rocketmq-broker-0"}
