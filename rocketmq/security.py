"""Who we are to a broker, and how the bytes travel: ACL signatures and TLS.

Nothing here reads the environment or a settings file; it is given what it needs. A secret is kept
out of every ``repr``, so that no log, table or traceback can show it.
"""

import base64
import functools
import hmac
import ssl
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from rocketmq.codes import ResponseCode
from rocketmq.frame import Frame

ACCESS_KEY, SECURITY_TOKEN, SIGNATURE = "AccessKey", "SecurityToken", "Signature"


class SecurityError(ValueError):
    """Security settings that cannot be used; the message says which, in one line."""


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
        """The ``extFields`` with account and signature, in the one form that 4.x and 5.x share.

        Signed are the values of all fields in the order of their names as Java sorts them, then the
        body (`AclUtils.combineRequestContent`); Base64 of HMAC-SHA1 (`AclSigner`).
        """
        signed = {**(fields or {}), ACCESS_KEY: self.access_key}
        if self.security_token:
            signed[SECURITY_TOKEN] = self.security_token
        # Java compares strings by UTF-16 units; field names are ASCII, where that is the same.
        content = "".join(signed[name] for name in sorted(signed) if name != SIGNATURE)
        digest = hmac.digest(self.secret_key.encode(), content.encode() + body, "sha1")
        return signed | {SIGNATURE: base64.b64encode(digest).decode()}

    def redacted(self, text: str) -> str:
        """What a broker said, without the account it may have repeated."""
        return text.replace(self.access_key, "***").replace(self.secret_key, "***")


@dataclass(slots=True, frozen=True)
class Tls:
    """How a connection is encrypted; brokers and name servers speak it on their usual port.

    Attributes:
        ca: file with the authorities that are trusted; None for those of the system.
        cert: file with the client's certificate, where brokers want one.
        key: file with its private key, without a pass phrase; None when it is in `cert`.
        verify: whether the other side must prove who it is.
        server_name: the name its certificate must carry; None for the host that is connected to.
            Brokers are known by address, and RocketMQ's own clients never compare names, so many
            a certificate carries no address.
    """

    ca: str | None = None
    cert: str | None = None
    key: str | None = None
    verify: bool = True
    server_name: str | None = None

    def context(self) -> ssl.SSLContext:
        """What asyncio connects with; the same one until a file of it changes.

        Raises:
            SecurityError: a file cannot be read or is not what it should be.
        """
        files = (path for path in (self.ca, self.cert, self.key) if path is not None)
        return _context(self, tuple(map(_changed_at, files)))


@dataclass(slots=True, frozen=True)
class Security:
    """What one cluster asks of those who connect.

    Attributes:
        credentials: the account, None where brokers ask for none.
        tls: None for plain connections.
    """

    credentials: Credentials | None = None
    tls: Tls | None = None

    @property
    def transport(self) -> str:
        """``plain``, ``tls``, or ``tls_unverified`` where anybody may have answered."""
        if self.tls is None:
            return "plain"
        return "tls" if self.tls.verify else "tls_unverified"


PLAIN = Security()


@functools.lru_cache(maxsize=64)
def _context(tls: Tls, changed_at: tuple[int | None, ...]) -> ssl.SSLContext:
    """A context is OpenSSL's memory; one for every look, and a collector would grow by it."""
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
            # The empty pass phrase: else OpenSSL asks for one at the terminal, and waits.
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
    """Why a handshake failed or TLS ended, in one line; None when it was something else."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"TLS: its certificate is not trusted: {error.verify_message}"
    if isinstance(error, ssl.SSLError):
        reason = (error.reason or "broken").replace("_", " ").lower()
        return f"TLS: {reason}"
    return None


def is_denial(frame: Frame) -> bool:
    """Whether a broker refused us for who we are.

    5.x answers NO_PERMISSION. 4.x answers SYSTEM_ERROR with the exception of its ACL hook as text.
    """
    if frame.code == ResponseCode.NO_PERMISSION:
        return True
    return frame.code == ResponseCode.SYSTEM_ERROR and "AclException" in (frame.remark or "")
