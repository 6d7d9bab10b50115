"""Our account at a broker, the encryption of connections, and the networks that they stay in.

Nothing here reads the environment or a settings file. No ``repr`` contains a secret, so no log,
table or traceback can show one.
"""

import base64
import functools
import hmac
import ssl
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tidemark.rocketmq.wire.addresses import Networks
from tidemark.rocketmq.wire.codes import ResponseCode
from tidemark.rocketmq.wire.frame import Frame

ACCESS_KEY, SECURITY_TOKEN, SIGNATURE = "AccessKey", "SecurityToken", "Signature"

_REFUSALS = ("certificate", "unknown ca")
"""Texts in alerts of a server about the certificate of its client, or about a missing one."""


class SecurityError(ValueError):
    """Security settings that cannot be used; the message names them in one line."""


@dataclass(slots=True, frozen=True)
class Credentials:
    """An account of brokers with ``aclEnable=true`` (4.x) or ``authenticationEnabled=true`` (5.x).

    Attributes:
        access_key: the account's name; it is sent.
        secret_key: signs requests; it is never sent.
        security_token: sent with the access key where a cloud gave one.
    """

    access_key: str = field(repr=False)
    secret_key: str = field(repr=False)
    security_token: str | None = field(default=None, repr=False)

    def sign(self, fields: Mapping[str, str] | None, body: bytes = b"") -> dict[str, str]:
        """Return ``extFields`` with account and signature, in the form that 4.x and 5.x share.

        The signature covers the values of all fields, in Java's order of their names, then the body
        (`AclUtils.combineRequestContent`). It is the Base64 of an HMAC-SHA1 (`AclSigner`).
        """
        signed = {**(fields or {}), ACCESS_KEY: self.access_key}
        if self.security_token:
            signed[SECURITY_TOKEN] = self.security_token
        # Java compares strings by UTF-16 units; field names are ASCII, where that is the same.
        content = "".join(signed[name] for name in sorted(signed) if name != SIGNATURE)
        digest = hmac.digest(self.secret_key.encode(), content.encode() + body, "sha1")
        return signed | {SIGNATURE: base64.b64encode(digest).decode()}

    def redacted(self, text: str) -> str:
        """Return the text of a broker without the account that it may repeat."""
        return text.replace(self.access_key, "***").replace(self.secret_key, "***")


@dataclass(slots=True, frozen=True, kw_only=True)
class Tls:
    """TLS settings; brokers and name servers use TLS on their usual port.

    Attributes:
        ca: file with the authorities that are trusted; None for those of the system.
        cert: file with the client's certificate, where brokers want one.
        key: file with its private key, without a pass phrase; None when it is in `cert`.
        verify: whether the other side must prove its identity.
        server_name: the name that the certificate must carry; None for the host of the address.
            Brokers are listed by address, and RocketMQ's own clients never compare names, so many
            certificates contain no address.
    """

    ca: str | None = None
    cert: str | None = None
    key: str | None = None
    verify: bool = True
    server_name: str | None = None

    def context(self) -> ssl.SSLContext:
        """Return the context for asyncio; the same one until one of its files changes.

        Raises:
            SecurityError: a file cannot be read, or has another content.
        """
        files = (path for path in (self.ca, self.cert, self.key) if path is not None)
        return _context(self, tuple(map(_changed_at, files)))


@dataclass(slots=True, frozen=True)
class Security:
    """Account and encryption for one cluster, and where they may be used.

    Attributes:
        credentials: the account, None where brokers need none.
        tls: None for plain connections.
        networks: the only ones that are connected to; None for any address that is listed.
    """

    credentials: Credentials | None = None
    tls: Tls | None = None
    networks: Networks | None = None

    @property
    def transport(self) -> str:
        """``plain``, ``tls``, or ``tls_unverified``, where any server may have responded."""
        if self.tls is None:
            return "plain"
        return "tls" if self.tls.verify else "tls_unverified"


PLAIN = Security()


@functools.lru_cache(maxsize=64)
def _context(tls: Tls, changed_at: tuple[int | None, ...]) -> ssl.SSLContext:
    """Return a cached context: one per snapshot would leak OpenSSL memory in a collector."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    if not tls.verify:
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    elif tls.ca is None:
        context.load_default_certs()
    else:
        _load("CA", tls.ca, lambda ca: context.load_verify_locations(cafile=ca))
    if tls.cert is not None:
        _load(
            "client certificate or key",
            tls.cert,
            # An empty pass phrase, so that OpenSSL does not prompt for one at the terminal and
            # wait.
            lambda cert: context.load_cert_chain(cert, tls.key, password=""),
        )
    return context


def _changed_at(path: str) -> int | None:
    try:
        return Path(path).stat().st_mtime_ns
    except OSError:
        return None


def _load(what: str, path: str, load: Callable[[str], object]) -> None:
    try:
        load(path)
    except ssl.SSLError as error:
        reason = (error.reason or "not PEM").replace("_", " ").lower()
        raise SecurityError(f"TLS: {what} {path}: {reason}") from error
    except OSError as error:
        raise SecurityError(f"TLS: {what} {path}: {error.strerror}") from error


def tls_failure(error: BaseException | None) -> str | None:
    """Return why a handshake failed or TLS ended, in one line; None for other errors."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"TLS: its certificate is not trusted: {error.verify_message}"
    if isinstance(error, ssl.SSLError):
        reason = (error.reason or "broken").replace("_", " ").lower()
        _, _, alert = reason.partition("alert ")
        refused = any(literal in alert for literal in _REFUSALS)
        return f"TLS: {reason}{', it refuses our client certificate' if refused else ''}"
    return None


def is_denial(frame: Frame) -> bool:
    """Return whether a broker refused our account.

    5.x responds NO_PERMISSION. 4.x responds SYSTEM_ERROR with the text of its ACL hook's exception.
    """
    if frame.code == ResponseCode.NO_PERMISSION:
        return True
    return frame.code == ResponseCode.SYSTEM_ERROR and "AclException" in (frame.remark or "")
