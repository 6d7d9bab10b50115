"""Signatures as the real classes make them, and secrets that show nowhere.

The tempting simplification is to sort case-insensitively or to sign names too: every broker would
then refuse everything.
"""

import asyncio
import base64
import hashlib
import hmac
import json
import os
import ssl

import pytest

from tidemark.lab import config as node_config
from tidemark.rocketmq.admin import requests as admin
from tidemark.rocketmq.collector import collect_snapshot
from tidemark.rocketmq.snapshot.target import ClusterTarget
from tidemark.rocketmq.wire.client import RemotingClient
from tidemark.rocketmq.wire.codes import (
    ConnectError,
    DeniedError,
    NotRocketMQError,
    RequestCode,
    ResponseError,
)
from tidemark.rocketmq.wire.security import Credentials, Security, SecurityError, Tls, tls_failure

GOLDEN = Credentials("rocketmq2", "12345678")
FIELDS = {"consumerGroup": "g1", "topic": "TopicA", "Zed": "z"}
SECRET = Credentials("who-i-am", "what-nobody-may-see")


def signature(secret: str, content: bytes) -> str:
    return base64.b64encode(hmac.new(secret.encode(), content, hashlib.sha1).digest()).decode()


@pytest.mark.parametrize("version", ["4.9.7", "5.3.3", "5.5.0"])
def test_the_signature_is_that_of_the_real_classes(golden, version):
    printed = golden[version]["ACL"].strip("{}").split(", ")
    assert GOLDEN.sign(FIELDS, b"hello") == dict(entry.split("=", 1) for entry in printed)


@pytest.mark.parametrize(
    ("fields", "content"),
    [
        ({"b": "2", "a": "1", "B": "0"}, "k012"),
        ({"topic": "T", "Signature": "an older one"}, "kT"),
        ({"topic": "日本é"}, "k日本é"),
        ({}, "k"),
        (None, "k"),
    ],
    ids=["capitals first", "signed before", "not ASCII", "empty", "none"],
)
def test_values_are_signed_in_the_order_of_their_names(fields, content):
    sign = Credentials("k", "s").sign(fields)

    assert sign["Signature"] == signature("s", content.encode())
    assert sign["AccessKey"] == "k"


def test_a_security_token_is_sent_and_signed():
    sign = Credentials("k", "s", "token").sign({"topic": "T"})
    assert sign["SecurityToken"] == "token"
    assert sign["Signature"] == signature("s", b"ktokenT")


def test_the_secret_is_never_sent():
    assert "what-nobody-may-see" not in str(SECRET.sign(FIELDS))


@pytest.mark.parametrize(
    "holder",
    [SECRET, Security(SECRET), ClusterTarget(name_servers=("ns:1",), security=Security(SECRET))],
    ids=["credentials", "security", "target"],
)
def test_a_secret_is_in_no_representation(holder):
    for text in (repr(holder), str(holder), f"{holder}"):
        assert "what-nobody-may-see" not in text and "who-i-am" not in text


@pytest.mark.parametrize(
    ("security", "transport"),
    [
        (Security(), "plain"),
        (Security(SECRET), "plain"),
        (Security(tls=Tls()), "tls"),
        (Security(tls=Tls(verify=False)), "tls_unverified"),
    ],
)
def test_a_snapshot_records_its_transport(security, transport):
    snapshot = collect_snapshot(ClusterTarget(name_servers=("127.0.0.1:1",), security=security))
    assert snapshot.header()["transport"] == transport


# Denials -----------------------------------------------------------------------------------------


async def next_request(reader):
    total = int.from_bytes(await reader.readexactly(4), "big")
    content = await reader.readexactly(total)
    return json.loads(content[4 : 4 + int.from_bytes(content[1:4], "big")])


def refusing(code, remark, seen):
    async def behave(reader, writer):
        while True:
            request = await next_request(reader)
            seen.append(request["extFields"])
            header = {"code": code, "flag": 1, "opaque": request["opaque"], "remark": remark}
            text = json.dumps(header).encode()
            writer.write((4 + len(text)).to_bytes(4, "big") + len(text).to_bytes(4, "big") + text)

    return behave


@pytest.mark.parametrize(
    ("code", "remark"),
    [
        (16, "check signature failed."),
        (16, "User:who-i-am is not found."),
        (1, "org.apache.rocketmq.acl.common.AclException: No acl config for who-i-am, of.X(X:1)"),
    ],
    ids=["5.3 signature", "5.3 account", "4.9 account"],
)
def test_a_denial_does_not_repeat_the_account(scripted, code, remark):
    seen = []

    async def main():
        async with (
            scripted(refusing(code, remark, seen)) as endpoint,
            RemotingClient(security=Security(SECRET)) as client,
        ):
            with pytest.raises(DeniedError, match="access denied to the cluster's account") as one:
                await admin.topic_stats(client, endpoint, "T")
        return one.value

    error = asyncio.run(main())
    assert error.code == code
    assert "who-i-am" not in str(error) + repr(error) + error.reason
    assert seen == [SECRET.sign({"topic": "T"})]


def test_without_an_account_the_denial_names_the_reason(scripted):
    seen = []

    async def main():
        async with scripted(refusing(16, "no", seen)) as endpoint, RemotingClient() as client:
            with pytest.raises(DeniedError, match="requests without an account"):
                await admin.topic_stats(client, endpoint, "T")

    asyncio.run(main())
    assert seen == [{"topic": "T"}]


def test_another_system_error_is_no_denial(scripted):
    async def main():
        async with scripted(refusing(1, "boom", [])) as endpoint, RemotingClient() as client:
            with pytest.raises(ResponseError, match="SYSTEM_ERROR boom") as caught:
                await admin.topic_stats(client, endpoint, "T")
            assert not isinstance(caught.value, DeniedError)

    asyncio.run(main())


# TLS ---------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def certificates(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tls")
    node_config.write_certificates(folder)
    return folder


def trusted(folder, **settings):
    files = {name: str(folder / file) for name, file in CLIENT.items()}
    return Tls(**files | settings)


CLIENT = {"ca": "ca.pem", "cert": "client.pem", "key": "client.key"}

UNUSABLE = {
    "CA missing": ({"ca": "/nowhere/ca.pem"}, "CA /nowhere/ca.pem: No such file"),
    "CA no PEM": ({"ca": __file__}, f"CA {__file__}: no certificate"),
    "certificate missing": ({"cert": "/nowhere/c.pem"}, "certificate or key /nowhere/c.pem: No"),
    "certificate no PEM": ({"cert": __file__, "key": None}, "not pem"),
    "another's key": ({"key": "server.key"}, "key values mismatch"),
}


@pytest.mark.parametrize(("settings", "expected_text"), UNUSABLE.values(), ids=UNUSABLE)
def test_an_unusable_file_is_named(certificates, settings, expected_text):
    if settings.get("key"):
        settings = {"key": str(certificates / settings["key"])}
    with pytest.raises(SecurityError) as caught:
        trusted(certificates, **settings).context()
    assert expected_text in str(caught.value) and "\n" not in str(caught.value)


def test_an_unusable_file_is_a_problem_of_the_snapshot(certificates):
    security = Security(tls=trusted(certificates, ca="/nowhere/ca.pem"))
    (problem,) = collect_snapshot(
        ClusterTarget(name_servers=("127.0.0.1:1",), security=security)
    ).problems
    assert "TLS: CA /nowhere/ca.pem: No such file or directory" in problem.message


def test_a_key_with_a_pass_phrase_is_refused(certificates, tmp_path):
    from cryptography.hazmat.primitives import serialization

    pem = (certificates / "client.key").read_bytes()
    key = serialization.load_pem_private_key(pem, None)
    locked = tmp_path / "locked.key"
    locked.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.BestAvailableEncryption(b"pass phrase"),
        )
    )
    with pytest.raises(SecurityError):
        trusted(certificates, key=str(locked)).context()


def test_verification_is_off_only_when_set(certificates):
    assert trusted(certificates).context().verify_mode is ssl.CERT_REQUIRED
    assert trusted(certificates).context().check_hostname
    assert Tls().context().verify_mode is ssl.CERT_REQUIRED
    assert Tls(verify=False).context().verify_mode is ssl.CERT_NONE


def test_a_context_is_made_once_until_a_file_changes(certificates, tmp_path):
    for name in CLIENT.values():
        (tmp_path / name).write_bytes((certificates / name).read_bytes())
    first = trusted(tmp_path).context()
    assert trusted(tmp_path).context() is first
    os.utime(tmp_path / "client.pem", ns=(1, 1))
    assert trusted(tmp_path).context() is not first


async def end(reader, writer):
    await reader.read(1)


async def respond_plainly(reader, writer):
    await reader.read(1)
    writer.write(b"\0\0\0\x10 what is this?")
    await reader.read()


@pytest.mark.parametrize(
    ("server", "tls", "error", "reason"),
    [
        pytest.param(respond_plainly, Tls(verify=False), ConnectError, "TLS: ", id="plain text"),
        pytest.param(end, None, NotRocketMQError, "does it want TLS", id="a plain request"),
        # RocketMQ with ``tls.server.mode=disabled`` closes the connection.
        pytest.param(end, Tls(verify=False), ConnectError, "does it speak TLS", id="it ends"),
    ],
)
def test_one_side_alone_that_speaks_tls_is_the_reason(scripted, server, tls, error, reason):
    async def main():
        security = Security(tls=tls)
        async with scripted(server) as endpoint, RemotingClient(security=security) as client:
            with pytest.raises(error, match=reason):
                await client.call(endpoint, RequestCode.GET_BROKER_CLUSTER_INFO)

    asyncio.run(main())


@pytest.mark.parametrize(
    ("alert", "refused"),
    [
        ("SSLV3_ALERT_BAD_CERTIFICATE", True),
        ("TLSV13_ALERT_CERTIFICATE_REQUIRED", True),
        ("TLSV1_ALERT_UNKNOWN_CA", True),
        ("SSLV3_ALERT_HANDSHAKE_FAILURE", False),
        ("NO_CERTIFICATE_OR_CRL_FOUND", False),
    ],
)
def test_a_refused_client_certificate_is_named(alert, refused):
    error = ssl.SSLError(1, "[SSL] alert")
    error.reason = alert
    assert ("it refuses our client certificate" in (tls_failure(error) or "")) == refused
