"""Configuration files, command lines and certificates of the nodes.

The settings that keep a lab small and local were tried on 4.9.7, 5.3.3, 5.5.0 and 5.5.1. A lab with
access control has one account, and TLS in both directions with its own certificates. The account's
secret guards nothing but a cluster on 127.0.0.1 that is thrown away. Only `write_certificates`
writes anything: all else is text from a plan.
"""

import ipaddress
import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from tidemark.lab.layout import CLUSTER, Node
from tidemark.rocketmq.wire.security import Credentials, Security, Tls

_HEAP = {"namesrv": 96, "broker": 256, "proxy": 192}

_MAIN = {
    "namesrv": "org.apache.rocketmq.namesrv.NamesrvStartup",
    "broker": "org.apache.rocketmq.broker.BrokerStartup",
    "proxy": "org.apache.rocketmq.proxy.ProxyStartup",
}

# 4.9 reaches into the JDK when it unmaps its files: without these its shutdown hook dies and leaves
# `store/abort` behind. 5.x needs none of them; they do no harm there.
OPENS = (
    "--add-opens=java.base/java.nio=ALL-UNNAMED",
    "--add-opens=java.base/sun.nio.ch=ALL-UNNAMED",
    "--add-opens=java.base/jdk.internal.ref=ALL-UNNAMED",
)

_SMALL_BROKER = {
    "mappedFileSizeCommitLog": 16 * 1024 * 1024,
    "mappedFileSizeConsumeQueue": 120_000,
    "mappedFileSizeTimerLog": 1024 * 1024,
    "maxHashSlotNum": 50_000,
    "maxIndexNum": 200_000,
    "enablePropertyFilter": "true",  # SQL92 subscriptions
    # A lab shares two cores with Spark: let a send wait (default 200 ms) rather than fail as busy.
    "waitTimeMillsInSendQueue": 5000,
    "osPageCacheBusyTimeOutMills": 5000,
    "diskMaxUsedSpaceRatio": 95,
    # Writing the whole wheel of delayed messages every second took a quarter of a core for nothing.
    "timerFlushIntervalMs": 60_000,
    # For the first of these (3 s by default) a 5.x broker spins, as it waits only after a check.
    "transactionMetricFlushInterval": 500,
    # Milliseconds, the shortest allowed: time until brokers register at a restarted name server.
    "registerNameServerPeriod": 10_000,
}

# A broker refuses writes on a disk more than 90 % full; a lab's few megabytes need no such care.
_DISK = (
    "-Drocketmq.broker.diskSpaceWarningLevelRatio=0.99",
    "-Drocketmq.broker.diskSpaceCleanForciblyRatio=0.98",
)


# Its TLS needs a native library that is not among the jars.
_PLAIN_PROXY = ("-Dtls.server.mode=disabled",)


def properties(values: Mapping[str, object]) -> str:
    """Return a Java properties file; backslashes are doubled as Java reads them as escapes."""
    return "".join(f"{key}={value}\n".replace("\\", "\\\\") for key, value in values.items())


def namesrv_config(node: Node, folder: Path) -> str:
    """Return the name server's ``-c`` file; ``folder`` is the node's own."""
    return properties(
        {
            "listenPort": node.port,
            "bindAddress": "127.0.0.1",
            "kvConfigPath": folder / "kvConfig.json",
            "configStorePath": folder / "namesrv.stored.properties",
            **({} if node.controller_port is None else _controller(node.controller_port, folder)),
        }
    )


def _controller(port: int, folder: Path) -> dict[str, object]:
    """Return a controller of one member in the name server."""
    return {
        "enableControllerInNamesrv": "true",
        "controllerDLegerGroup": "controllers",
        "controllerDLegerPeers": f"n0-127.0.0.1:{port}",
        "controllerDLegerSelfId": "n0",
        "controllerStorePath": folder / "controller",
    }


def proxy_config(node: Node, namesrv: str) -> str:
    """Return a proxy's ``-pc`` file, also of one that has a broker in it."""
    grpc_port = node.grpc_port or 0
    return json.dumps(
        {
            "proxyMode": "CLUSTER" if node.broker is None else "LOCAL",
            "rocketMQClusterName": CLUSTER,
            "namesrvAddr": namesrv,
            "localServeAddr": "127.0.0.1",
            "grpcServerPort": grpc_port,
            "remotingListenPort": grpc_port + 1,
        },
        indent=2,
    )


def broker_config(node: Node, namesrv: str, folder: Path, extra: Mapping[str, str]) -> str:
    """Return a broker's ``-c`` file; ``extra`` wins over everything."""
    return properties(
        {
            "brokerClusterName": CLUSTER,
            "brokerName": node.broker,
            **_broker_role(node),
            "namesrvAddr": namesrv,
            "listenPort": node.port,
            "haListenPort": node.ha_port,
            "bindAddress": "127.0.0.1",
            "brokerIP1": "127.0.0.1",
            "brokerIP2": "127.0.0.1",
            "storePathRootDir": folder / "store",
            "storePathCommitLog": folder / "store" / "commitlog",
            **_SMALL_BROKER,
            **extra,
        }
    )


def _broker_role(node: Node) -> dict[str, object]:
    if node.controller_port is None:
        role = "ASYNC_MASTER" if node.broker_id == 0 else "SLAVE"
        return {"brokerId": node.broker_id, "brokerRole": role}
    return {
        "enableControllerMode": "true",
        "controllerAddr": f"127.0.0.1:{node.controller_port}",
    }


def logback(folder: Path) -> str:
    """Logging of a node: ``logs/node.log``, and ``logs/stats.log`` as RocketMQ itself writes it."""
    stats = "%d{yyy-MM-dd HH:mm:ss,GMT+8} %p - %m%n"  # every real stats.log has GMT+8
    return (
        "<configuration>\n"
        + _appender("node", folder, "%d{yyyy-MM-dd HH:mm:ss.SSS} %p %t - %m%n")
        + _appender("stats", folder, stats)
        + '  <logger name="RocketmqStats" additivity="false" level="INFO">'
        + '<appender-ref ref="stats"/></logger>\n'
        + '  <root level="INFO"><appender-ref ref="node"/></root>\n'
        + "</configuration>\n"
    )


def _appender(name: str, folder: Path, pattern: str) -> str:
    rolling = "ch.qos.logback.core.rolling"
    return (
        f'  <appender name="{name}" class="{rolling}.RollingFileAppender">\n'
        f"    <file>{folder}/logs/{name}.log</file>\n"
        f'    <rollingPolicy class="{rolling}.FixedWindowRollingPolicy">\n'
        f"      <fileNamePattern>{folder}/logs/{name}.%i.log</fileNamePattern>\n"
        "      <minIndex>1</minIndex><maxIndex>3</maxIndex>\n"
        "    </rollingPolicy>\n"
        f'    <triggeringPolicy class="{rolling}.SizeBasedTriggeringPolicy">'
        "<maxFileSize>20MB</maxFileSize></triggeringPolicy>\n"
        f"    <encoder><pattern>{pattern}</pattern></encoder>\n"
        "  </appender>\n"
    )


def files(node: Node, namesrv: str, folder: Path, extra: Mapping[str, str]) -> dict[str, str]:
    """Return the files of a node's folder before it starts: relative path -> text.

    ``conf/plain_acl.yml`` is read by 4.x, and only where ``extra`` has ``aclEnable``.
    """
    configs = {}
    if node.role == "namesrv":
        configs["node.properties"] = namesrv_config(node, folder)
    if node.role == "broker":
        configs["node.properties"] = broker_config(node, namesrv, folder, extra)
    if node.grpc_port is not None:
        configs["proxy.json"] = proxy_config(node, namesrv)
    logging = logback(folder)
    # 4.9 reads conf/logback_<role>.xml under ROCKETMQ_HOME and dies without; 5.x gets a file.
    names = ("logback.xml", "conf/logback_namesrv.xml", "conf/logback_broker.xml")
    return {
        **configs,
        "conf/plain_acl.yml": plain_acl(),
        **{name: logging for name in names},
    }


def command(
    node: Node, java: str, jars: Path, folder: Path, options: Sequence[str] = ()
) -> list[str]:
    """Return the command line that runs a node in its folder, with more options of Java's."""
    heap = _HEAP[node.role]
    properties_file, proxy_file = str(folder / "node.properties"), str(folder / "proxy.json")
    main = [_MAIN["proxy" if node.grpc_port else node.role]]
    if node.grpc_port is not None:
        main += ["-pc", proxy_file]
    if node.role != "proxy":
        main += ["-bc" if node.grpc_port else "-c", properties_file]
    return [
        java,
        *(f"-Xms{heap // 2}m", f"-Xmx{heap}m", "-XX:MaxDirectMemorySize=1g", "-XX:+UseSerialGC"),
        # Half a minute of optimising is not worth it for a lab that shares two cores with Spark.
        "-XX:TieredStopAtLevel=1",
        *OPENS,
        *(_DISK if node.role == "broker" else ()),
        *(_PLAIN_PROXY if node.grpc_port else ()),
        *options,
        f"-Drocketmq.home.dir={folder}",
        f"-Duser.home={folder}",
        f"-Drmq.logback.configurationFile={folder / 'logback.xml'}",
        *("-cp", f"{jars}/*", *main),
    ]


ACCOUNT = Credentials("tidemark-lab", "secret-of-the-lab")

DAYS = 30
"""Days for which certificates are valid; each `up` makes new ones."""

Issuer = tuple[x509.Certificate, ec.EllipticCurvePrivateKey]


def security(folder: Path) -> Security:
    """Return account and TLS settings for clients of a secure lab with that folder."""
    return Security(
        ACCOUNT,
        Tls(
            ca=str(folder / "ca.pem"),
            cert=str(folder / "client.pem"),
            key=str(folder / "client.key"),
        ),
    )


def write_certificates(folder: Path) -> None:
    """Write a certificate authority, and a server's and a client's certificate of it."""
    folder.mkdir(parents=True, exist_ok=True)
    authority = _certificate("tidemark lab", None)
    for name, issuer in (("ca", None), ("server", authority), ("client", authority)):
        certificate, key = authority if issuer is None else _certificate(name, issuer)
        pem = serialization.Encoding.PEM
        (folder / f"{name}.pem").write_bytes(certificate.public_bytes(pem))
        # Java reads keys as PKCS 8 only.
        (folder / f"{name}.key").write_bytes(
            key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
        )


def broker_properties(version: str) -> Mapping[str, str]:
    """Return properties that make a broker require an account: ACL 1 up to 4.x, ACL 2 since 5.3."""
    if version.startswith("4."):
        return {"aclEnable": "true"}
    name, secret = ACCOUNT.access_key, ACCOUNT.secret_key
    providers = "org.apache.rocketmq.auth.authentication.provider"
    return {
        "authenticationEnabled": "true",
        "authenticationProvider": f"{providers}.DefaultAuthenticationProvider",
        "authenticationMetadataProvider": f"{providers}.LocalAuthenticationMetadataProvider",
        "initAuthenticationUser": f'{{"username":"{name}","password":"{secret}"}}',
        "innerClientAuthenticationCredentials": (
            f'{{"accessKey":"{name}","secretKey":"{secret}"}}'
        ),
    }


def plain_acl() -> str:
    """``conf/plain_acl.yml`` of 4.x."""
    return (
        "globalWhiteRemoteAddresses: []\n"
        "accounts:\n"
        f"- accessKey: {ACCOUNT.access_key}\n"
        f"  secretKey: {ACCOUNT.secret_key}\n"
        "  admin: true\n"
    )


def java_options(folder: Path) -> list[str]:
    """TLS only, in both directions, for a node as server and as client of other nodes."""
    options = {
        "tls.enable": "true",
        "tls.test.mode.enable": "false",
        "tls.server.mode": "enforcing",
        "tls.server.need.client.auth": "require",
        "tls.server.authClient": "true",
        "tls.server.certPath": folder / "server.pem",
        "tls.server.keyPath": folder / "server.key",
        "tls.server.trustCertPath": folder / "ca.pem",
        "tls.client.authServer": "true",
        "tls.client.certPath": folder / "client.pem",
        "tls.client.keyPath": folder / "client.key",
        "tls.client.trustCertPath": folder / "ca.pem",
    }
    return [f"-D{name}={value}" for name, value in options.items()]


def _certificate(name: str, issuer: Issuer | None) -> Issuer:
    """Return a certificate for 127.0.0.1 and its key; without an issuer, an authority's."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    signed_by, signing_key = (issuer[0].subject, issuer[1]) if issuer else (subject, key)
    # An hour back: clocks of a machine and its containers may differ.
    start = datetime.now(UTC) - timedelta(hours=1)
    address = x509.IPAddress(ipaddress.ip_address("127.0.0.1"))
    usage = dict.fromkeys(
        (
            "content_commitment",
            "data_encipherment",
            "key_agreement",
            "key_encipherment",
            "encipher_only",
            "decipher_only",
        ),
        False,
    )
    authority = issuer is None
    made = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(signed_by)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(start)
        .not_valid_after(start + timedelta(days=DAYS))
        .add_extension(x509.BasicConstraints(ca=authority, path_length=None), critical=True)
        .add_extension(x509.SubjectAlternativeName([address]), critical=False)
        .add_extension(
            x509.KeyUsage(
                digital_signature=True, key_cert_sign=authority, crl_sign=authority, **usage
            ),
            critical=True,
        )
        .sign(signing_key, hashes.SHA256())
    )
    return made, key
