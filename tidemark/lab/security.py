"""A lab with access control: one account and TLS in both directions, with its own certificates.

The account's secret guards nothing but a cluster on 127.0.0.1 that is thrown away.
"""

import ipaddress
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from tidemark.rocketmq.wire.security import Credentials, Security, Tls

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
