"""The settings file of the clusters: its clusters, and the line of each mistake."""

from datetime import UTC, datetime, timedelta

import pytest

from tidemark.rocketmq.snapshot.target import ClusterTarget, DeepOptions
from tidemark.rocketmq.wire.security import Credentials, Security, Tls
from tidemark.settings.basics import SettingsError
from tidemark.settings.clusters import Cluster, configured, load_clusters
from tidemark.settings.home import Home

SECRET = "what-nobody-may-see"

FULL = """\
clusters:
- name: orders
  namesrv: [10.0.0.1:9876, 10.0.0.2:9876]
  cluster: DefaultCluster
  acl: {access_key_env: ORDERS_ACCESS_KEY, secret_key_env: ORDERS_SECRET_KEY}
  tls: {ca: ca.pem, cert: /etc/client.pem, key: client.key, verify: false, server_name: brokers}
  every: 10s
  deep_every: 10m
  client_reports: false
  total_timeout: 5
  in_flight: 16
  max_requests: 5000
  max_lite_topics: 100
  proxies: [10.0.0.9:8080]
  broker_metrics: true
  message_lookup: false
- name: billing
  namesrv: 10.1.0.1:9876
  acl: {secret_file: account.yaml}
"""


@pytest.fixture
def home(tmp_path):
    return Home.of(tmp_path)


def write(home, text):
    (home.path / "clusters.yaml").write_text(text)


def test_a_whole_file(home):
    write(home, FULL)
    (home.path / "account.yaml").write_text("accessKey: rocketmq2\nsecretKey: 0123\n")
    orders, billing = configured(home)
    environment = {"ORDERS_ACCESS_KEY": "me", "ORDERS_SECRET_KEY": SECRET}
    remembered = (("broker-a", 0, "a:1"),)
    tls = Tls(
        ca=str(home.path / "ca.pem"),
        cert="/etc/client.pem",
        key=str(home.path / "client.key"),
        verify=False,
        server_name="brokers",
    )
    assert orders.target(remembered, environment) == ClusterTarget(
        name_servers=("10.0.0.1:9876", "10.0.0.2:9876"),
        name="orders",
        cluster="DefaultCluster",
        remembered=remembered,
        total_timeout=5,
        in_flight=16,
        max_requests=5000,
        max_lite_topics=100,
        proxies=("10.0.0.9:8080",),
        security=Security(Credentials("me", SECRET), tls),
    )
    assert (orders.every, billing.every) == (10, None)
    assert (orders.deep_every, billing.deep_every) == (600, 300)
    assert (orders.client_reports, billing.client_reports) == (False, True)
    everywhere = {"TIDEMARK_MESSAGE_LOOKUP": "true"}
    looks_up = [cluster.looks_up_messages(everywhere) for cluster in (orders, billing)]
    assert (looks_up, billing.looks_up_messages({})) == ([False, True], False)
    deep = [cluster.deep(None, datetime.now(UTC), 0) for cluster in (orders, billing)]
    assert [options and options.broker_metrics for options in deep] == [True, False]
    # RocketMQ's own example of a secret looks like a number.
    assert billing.target().security == Security(Credentials("rocketmq2", "0123"))


def test_the_older_name_of_client_reports_is_read(home):
    write(home, ENTRY + "  ask_clients: false\n")
    (cluster,) = configured(home)
    assert not cluster.client_reports


def test_one_cluster_without_a_file(home):
    assert configured(home) == []
    assert configured(home, "a:1; b:2") == [Cluster(namesrv=("a:1", "b:2"))]
    assert configured(home, "a:1", "mine") == [Cluster(namesrv=("a:1",), name="mine")]


@pytest.mark.parametrize(
    ("written", "expected"), [("off", 0), ("0", 0), ("'off'", 0), ("90", 90), ("1h", 3600)]
)
def test_how_often_snapshots_are_deep(home, written, expected):
    write(home, ENTRY + f"  deep_every: {written}\n")
    assert configured(home)[0].deep_every == expected


@pytest.mark.parametrize(
    ("deep_every", "minutes_ago", "expected"),
    [
        (300, None, True),
        (300, 4, False),
        (300, 4.99, True),
        (300, 5, True),
        (300, -1, True),
        (0, None, False),
        (0, 5, False),
    ],
)
def test_a_deep_snapshot_is_due(deep_every, minutes_ago, expected):
    now = datetime(2026, 11, 19, 12, tzinfo=UTC)
    last = None if minutes_ago is None else now - timedelta(minutes=minutes_ago)
    deep = Cluster(namesrv=("a:1",), deep_every=deep_every, client_reports=False).deep(last, now, 3)
    assert deep == (DeepOptions(client_reports=False, turn=3) if expected else None)


def test_which_clusters_of_the_file(home):
    write(home, FULL)

    def names(*args):
        return [cluster.name for cluster in configured(home, *args)]

    assert names() == ["orders", "billing"]
    assert names("", "billing") == ["billing"]
    assert names("10.0.0.2:9876") == ["orders"], "its settings are those of the file"
    assert configured(home, "10.9.9.9:9876") == [Cluster(namesrv=("10.9.9.9:9876",))]
    with pytest.raises(SettingsError, match="no cluster 'stock', only orders, billing"):
        configured(home, "", "stock")


def test_a_file_elsewhere(home, tmp_path):
    (tmp_path / "other.yaml").write_text("clusters: [{name: a, namesrv: 'a:1'}]")
    assert configured(home, path=str(tmp_path / "other.yaml")) == [
        Cluster(namesrv=("a:1",), name="a", limits={})
    ]
    with pytest.raises(SettingsError, match=r"nowhere\.yaml: cannot be read: No such file"):
        configured(home, path=str(tmp_path / "nowhere.yaml"))


NUMBER = 20261119
"""A secret that YAML reads as a number."""

ENTRY = "clusters:\n- name: a\n  namesrv: a:1\n"
ACL = ENTRY + "  acl:\n"

WRONG = {
    "nothing": ("", 1, "empty: write `clusters:`"),
    "not YAML": ("clusters: [", 1, "not YAML"),
    "a list": ("- a", 1, "a mapping with `clusters:` is wanted here, not a list"),
    "no list": ("clusters: a", 1, "clusters: a list of clusters is wanted, not text"),
    "no cluster": ("clusters: []", 1, "clusters: no cluster"),
    "another key": (ENTRY + "more: 1\n", 4, "more: unknown field"),
    "no mapping": ("clusters:\n- orders\n", 2, "clusters[0]: a cluster is a mapping, not text"),
    "no name": ("clusters:\n- namesrv: a:1\n", 2, "clusters[0].name: missing"),
    "a path as name": (ENTRY.replace("name: a", "name: ../a"), 2, "clusters[0].name: "),
    "no name server": ("clusters:\n- name: a\n", 2, "clusters[0].namesrv: missing"),
    "no port": (ENTRY.replace("a:1", "a"), 3, "clusters[0].namesrv[0]: 'a' is not HOST:PORT"),
    "two in one text": (
        ENTRY.replace("a:1", "a:1;b:2"),
        3,
        "clusters[0].namesrv[0]: 'a:1;b:2' is not HOST:PORT",
    ),
    "empty name servers": (
        ENTRY.replace("a:1", "[]"),
        3,
        "clusters[0].namesrv: empty: HOST:PORT of its name servers is wanted",
    ),
    "empty proxies": (
        ENTRY + "  proxies: []\n",
        4,
        "clusters[0].proxies: empty: HOST:PORT of its proxies is wanted, or leave it out where",
    ),
    "written twice": (ENTRY + "  name: b\n", 4, "clusters[0].name: written twice"),
    "a name twice": (
        ENTRY + "- name: a\n  namesrv: b:1\n",
        4,
        "clusters[1].name: 'a' is another cluster's name",
    ),
    "unknown field": (ENTRY + "  intervall: 10s\n", 4, "clusters[0].intervall: unknown field"),
    "no span": (
        ENTRY + "  every: often\n",
        4,
        "clusters[0].every: a duration is wanted, e.g. 90s, 5m, 2h or 1d, not 'often'",
    ),
    "too often": (ENTRY + "  every: 0.1s\n", 4, "clusters[0].every: "),
    "not how often": (ENTRY + "  deep_every: on\n", 4, "clusters[0].deep_every: "),
    "never before": (ENTRY + "  deep_every: -1\n", 4, "clusters[0].deep_every: "),
    "perhaps": (ENTRY + "  client_reports: 1\n", 4, "clusters[0].client_reports: "),
    "no number": (ENTRY + "  in_flight: many\n", 4, "clusters[0].in_flight: "),
    "nothing in flight": (ENTRY + "  in_flight: 0\n", 4, "clusters[0].in_flight: "),
    "key without cert": (
        ENTRY + "  tls:\n    key: a.key\n",
        4,
        "clusters[0].tls: key without cert",
    ),
    "verify": (ENTRY + "  tls:\n    verify: perhaps\n", 5, "clusters[0].tls.verify: "),
    "half an account": (
        ACL + "    access_key_env: A\n",
        4,
        "clusters[0].acl: give access_key_env and secret_key_env, or secret_file alone",
    ),
    "two accounts": (
        ACL + "    access_key_env: A\n    secret_key_env: B\n    secret_file: c\n",
        4,
        "clusters[0].acl: give access_key_env",
    ),
    "the secret itself": (
        ACL + f"    access_key_env: A\n    secret_key: {SECRET}\n",
        6,
        "clusters[0].acl.secret_key: unknown field",
    ),
    "the secret as a variable": (
        ACL + f"    access_key_env: A\n    secret_key_env: {SECRET}\n",
        6,
        "clusters[0].acl.secret_key_env: ",
    ),
    "a field of 0.1": (
        ENTRY + "  spark_tasks: 4\n",
        4,
        "one process is faster than tasks of Spark were: remove this field",
    ),
    "the secret as a field": (
        ENTRY + f"  acl: {{{SECRET}}}\n",
        4,
        "clusters[0].acl: unknown field",
    ),
    "the secret as a number": (ACL + f"    {NUMBER}: x\n", 4, "clusters[0].acl: unknown field"),
    "the secret as an alias": (
        ACL + f"    secret_key_env: *{SECRET}\n",
        5,
        "not YAML: found undefined alias; a text that begins with * or ! is put in quotes",
    ),
    "the secret as a tag": (
        ACL + f"    secret_key_env: !{SECRET}\n",
        5,
        "a constructor for the tag;",
    ),
    "the secret as the account": (ENTRY + f"  acl: {SECRET}\n", 4, "clusters[0].acl: "),
}


@pytest.mark.parametrize(("text", "line", "expected"), WRONG.values(), ids=WRONG)
def test_a_mistake_names_file_line_and_field(home, text, line, expected):
    write(home, text)
    with pytest.raises(SettingsError) as caught:
        configured(home)
    lines = [it for it in caught.value.mistakes if expected in it]
    assert lines and lines[0].startswith(f"{home.path / 'clusters.yaml'}:{line}: ")
    assert SECRET not in str(caught.value) and str(NUMBER) not in str(caught.value)
    assert "\n" not in str(caught.value)


def test_all_mistakes_at_once(home):
    write(home, "clusters:\n- name: a\n- name: b\n  namesrv: b\n  every: 5\n  more: 1\n")
    with pytest.raises(SettingsError) as caught:
        configured(home)
    assert len(caught.value.mistakes) == 3


NO_ACCOUNT = {
    "no variable": ("{access_key_env: A, secret_key_env: B}", None, ".access_key_env: this env"),
    "no file": ("{secret_file: account.yaml}", None, "account.yaml: cannot be read: No such file"),
    "empty": ("{secret_file: account.yaml}", "", "accessKey is missing or empty"),
    "text": ("{secret_file: account.yaml}", SECRET, "accessKey is missing or empty"),
    "half": ("{secret_file: account.yaml}", "accessKey: a", "secretKey is missing or empty"),
    "a list": ("{secret_file: account.yaml}", f"- {SECRET}", "accessKey is missing"),
    "nested": (
        "{secret_file: account.yaml}",
        f"accessKey: a\nsecretKey: [{SECRET}]",
        "secretKey is missing or empty",
    ),
    "not YAML": ("{secret_file: account.yaml}", f"accessKey: [{SECRET}", "not YAML"),
    "not text": ("{secret_file: account.yaml}", b"\xff\xfe\xfa", "not YAML"),
}


@pytest.mark.parametrize(("acl", "content", "expected"), NO_ACCOUNT.values(), ids=NO_ACCOUNT)
def test_an_account_that_is_not_there(home, acl, content, expected):
    write(home, ENTRY + f"  acl: {acl}\n")
    if content is not None:
        content = content if isinstance(content, bytes) else content.encode()
        (home.path / "account.yaml").write_bytes(content)
    (cluster,) = configured(home)
    with pytest.raises(SettingsError) as caught:
        cluster.target(environment={})
    assert expected in str(caught.value)
    assert f"{home.path / 'clusters.yaml'}:4: clusters[0].acl" in str(caught.value)
    assert SECRET not in str(caught.value) and caught.value.__cause__ is None


def test_an_account_is_read_again_for_every_snapshot(home):
    write(home, ENTRY + "  acl: {access_key_env: A, secret_key_env: B}\n")
    (cluster,) = configured(home)
    for secret in ("old", "new"):
        credentials = cluster.target(environment={"A": "a", "B": secret}).security.credentials
        assert credentials == Credentials("a", secret)


def test_limits_of_deep_snapshots(tmp_path):
    file = tmp_path / "clusters.yaml"
    limits = "{max_clients: 300, max_stats: 0, max_tag_requests: 9, max_store_times: 2}"
    file.write_text(f"clusters:\n- {{name: a, namesrv: 'h:1', deep_limits: {limits}}}\n")
    (cluster,) = load_clusters(file)
    at = datetime(2026, 11, 19, 12, tzinfo=UTC)
    options = cluster.deep(None, at, 7)
    assert (options.max_clients, options.max_stats, options.max_tag_requests) == (300, 0, 9)
    assert (options.max_consume_stats, options.max_store_times, options.turn) == (20, 2, 7)


def test_an_unknown_limit_of_deep_snapshots_is_named(tmp_path):
    file = tmp_path / "clusters.yaml"
    file.write_text("clusters:\n- {name: a, namesrv: 'h:1', deep_limits: {max_client: 3}}\n")
    with pytest.raises(SettingsError, match=r"deep_limits\.max_client"):
        load_clusters(file)


def test_a_secret_that_is_no_text_is_named_and_not_shown(home):
    """Python reads bytes of a variable that are no UTF-8 as surrogates."""
    write(home, "clusters:\n- {name: a, namesrv: a:1, acl: {access_key_env: A, secret_key_env: S}}")
    (cluster,) = configured(home)
    with pytest.raises(SettingsError) as caught:
        cluster.security({"A": "me", "S": "s3cr\udce9t"})
    assert str(caught.value).endswith("secret_key_env: this environment variable is no UTF-8")
    assert "s3cr" not in str(caught.value)
