"""A cluster that requires an account and mutual TLS: access to it, and no leaked secret.

RocketMQ 5.3.3, or another that ``TIDEMARK_TEST_VERSION`` names: 4.9.7 requires it by ``aclEnable``.
"""

import asyncio
import json
from dataclasses import replace

import pytest
import yaml

from tests.conftest import chosen_version
from tests.support.homes import run
from tidemark.lab.cluster import LabCluster, registered_brokers
from tidemark.lab.config import ACCOUNT
from tidemark.lab.layout import free_port_base
from tidemark.lake.landing import landed
from tidemark.lake.loading import read_landed
from tidemark.rocketmq.admin import requests as admin
from tidemark.rocketmq.collector import collect_snapshot
from tidemark.rocketmq.snapshot.target import ClusterTarget
from tidemark.rocketmq.wire.client import RemotingClient
from tidemark.rocketmq.wire.codes import RequestCode
from tidemark.rocketmq.wire.security import Credentials
from tidemark.settings.home import Home

pytestmark = pytest.mark.cluster

WRONG = "a-key-that-is-not-the-one"
ACCOUNTS = {
    "LAB_ACCESS_KEY": ACCOUNT.access_key,
    "LAB_SECRET_KEY": ACCOUNT.secret_key,
    "WRONG_SECRET_KEY": WRONG,
}


@pytest.fixture(scope="module")
def secure(tmp_path_factory):
    cluster = LabCluster.up(
        tmp_path_factory.mktemp("secure"),
        chosen_version(),
        brokers=1,
        port_base=free_port_base(),
        secure=True,
    )
    try:
        yield cluster
    finally:
        cluster.down(graceful=False)


@pytest.fixture
def home(tmp_path):
    home = Home.of(tmp_path / "home")
    home.path.mkdir()
    return home


def take_snapshot(secure, **changes):
    security = replace(secure.security, **changes)
    return collect_snapshot(ClusterTarget(name_servers=(secure.namesrv,), security=security))


def test_the_right_account_and_certificate(secure):
    snapshot = take_snapshot(secure)
    assert (snapshot.status, snapshot.problems, snapshot.transport) == ("COMPLETE", [], "tls")
    assert "TBW102" in {row.topic for row in snapshot.topics}


def test_every_field_is_signed(secure):
    """Requests with several fields, in an order that is not that of their names."""
    address = secure.brokers[0].address

    async def request():
        async with RemotingClient(security=secure.security) as client:
            queues = await admin.topic_stats(client, address, "TBW102")
            fields = {"topic": "TBW102", "queueId": "0", "Zed": "é"}
            newest = await client.call(address, RequestCode.GET_MAX_OFFSET, fields)
            return queues, newest.fields["offset"]

    queues, newest = asyncio.run(request())
    assert queues and len(queues) == 8 and newest == "0"


DENIED = {
    "wrong key": Credentials(ACCOUNT.access_key, WRONG),
    "wrong account": Credentials("nobody-at-all", ACCOUNT.secret_key),
    "no account": None,
}


@pytest.mark.parametrize("credentials", DENIED.values(), ids=DENIED)
def test_the_wrong_account_is_one_problem(secure, credentials):
    snapshot = take_snapshot(secure, credentials=credentials)
    assert snapshot.status == "FAILED"
    (problem,) = snapshot.problems
    code = 1 if chosen_version().startswith("4.") else 16  # 4.9.7 answers with a system error
    assert (problem.endpoint, problem.code) == (secure.brokers[0].address, code)
    assert problem.message.startswith("access denied to ")
    assert not snapshot.topics and not snapshot.consumer_offsets


def test_certificates(secure):
    tls = secure.security.tls
    messages = {}
    for name, changed in {
        "authority": replace(tls, ca=tls.cert),
        "name": replace(tls, server_name="broker.example.org"),
        "no certificate": replace(tls, cert=None, key=None),
        "plain": None,
    }.items():
        snapshot = take_snapshot(secure, tls=changed)
        assert (snapshot.status, snapshot.queue_offsets) == ("FAILED", [])
        (problem,) = snapshot.problems
        messages[name] = problem.message
    assert "certificate is not trusted" in messages["authority"]
    assert "not valid for 'broker.example.org'" in messages["name"]
    assert messages["no certificate"].startswith("TLS: ")
    assert "does it want TLS?" in messages["plain"]


def test_disabled_verification_is_reported(secure):
    snapshot = take_snapshot(secure, tls=replace(secure.security.tls, ca=None, verify=False))
    assert (snapshot.status, snapshot.transport) == ("COMPLETE", "tls_unverified")


def test_a_lab_found_again_is_still_secure(secure):
    again = LabCluster.load(secure.home)
    assert registered_brokers(again.namesrv, again.security) == {("broker-a", 0)}
    assert registered_brokers(again.namesrv) is None


# Configured, side by side ------------------------------------------------------------------------


def configure(home, secure):
    tls = secure.security.tls
    files = {"ca": tls.ca, "cert": tls.cert, "key": tls.key}

    def entry(name, secret, namesrv=secure.namesrv):
        acl = {"access_key_env": "LAB_ACCESS_KEY", "secret_key_env": secret}
        return {"name": name, "namesrv": namesrv, "acl": acl, "tls": files}

    clusters = [
        entry("right", "LAB_SECRET_KEY"),
        entry("wrong", "WRONG_SECRET_KEY"),
        entry("unset", "NO_SUCH_VARIABLE"),
        entry("gone", "LAB_SECRET_KEY", "127.0.0.1:1"),
        entry("unverified", "LAB_SECRET_KEY") | {"tls": files | {"verify": False}},
    ]
    (home.path / "clusters.yaml").write_text(yaml.safe_dump({"clusters": clusters}))


def leaks(home, *texts):
    """Files of a home, and texts, that hold a secret or an access key."""
    secrets = [value.encode() for value in ACCOUNTS.values()]
    files = {path: path.read_bytes() for path in home.path.rglob("*") if path.is_file()}
    shown = {f"text {number}": text.encode() for number, text in enumerate(texts)}
    return [
        str(name)
        for name, content in (files | shown).items()
        if any(it in content for it in secrets)
    ]


def test_clusters_fail_alone_and_no_secret_leaks(secure, home):
    configure(home, secure)
    done = run(home, ["--debug", "collect"], timeout=60, **ACCOUNTS)
    assert done.returncode == 0, done.stderr
    lines = {line.split()[1]: line for line in done.stdout.splitlines()}
    assert {name: line.split()[2] for name, line in lines.items()} == {
        "right": "COMPLETE",
        "wrong": "FAILED",
        "unset": "FAILED",
        "gone": "FAILED",
        "unverified": "COMPLETE",
    }
    assert "access denied to the cluster's account" in lines["wrong"]
    assert "secret_key_env: this environment variable is not set" in lines["unset"]
    assert "connection refused" in lines["gone"]
    assert " tls_unverified " in lines["unverified"] and "unverified " not in lines["right"]
    transports = {
        item.cluster: read_landed(item)["raw.snapshots"]["transport"][0].as_py()
        for item in landed(home)
    }
    assert transports["right"] == "tls" and transports["unverified"] == "tls_unverified"

    doctor = run(home, ["doctor"], timeout=60, **ACCOUNTS)
    right = run(
        home, ["snapshot", "--format", "json"], timeout=60, TIDEMARK_CLUSTER="right", **ACCOUNTS
    )
    assert json.loads(right.stdout)["snapshot"]["transport"] == "tls"
    wrong = run(home, ["--debug", "lag"], timeout=60, TIDEMARK_CLUSTER="wrong", **ACCOUNTS)
    assert wrong.returncode == 1 and "Traceback" in wrong.stderr
    plain = run(home, ["lag"], timeout=60, TIDEMARK_CLUSTER="wrong", **ACCOUNTS)
    assert plain.returncode == 1 and plain.stderr.count("\n") == 1
    assert "access denied" in plain.stderr
    shown = [
        text for ran in (done, doctor, right, wrong, plain) for text in (ran.stdout, ran.stderr)
    ]
    assert leaks(home, *shown) == []
