"""Passwords of the file of users: how they are kept and compared."""

import hashlib
import hmac
import secrets
from pathlib import Path

from settings.errors import SettingsError

_COST = {"n": 2**14, "r": 8, "p": 1}
"""Of scrypt: some 50 ms and 16 MB a guess."""


def password_hash(password: str) -> str:
    """Return what the file of users keeps of a password."""
    salt = secrets.token_bytes(16)
    digest = hashlib.scrypt(password.encode(), salt=salt, **_COST)
    return f"scrypt${salt.hex()}${digest.hex()}"


NOBODY = password_hash(secrets.token_hex())
"""Compared with where there is no such user, so that the refusal takes as long."""

_known_passwords: dict[str, bool] = {}


def is_password(password: str, kept: str) -> bool:
    """Return whether a password is the one that a hash was made of."""
    # Every request brings the password; hashing it again each time would take 50 ms of each.
    seen = hashlib.sha256(f"{kept}\0{password}".encode()).hexdigest()
    if seen not in _known_passwords:
        _, salt, digest = kept.split("$")
        made = hashlib.scrypt(password.encode(), salt=bytes.fromhex(salt), **_COST)
        if not hmac.compare_digest(made.hex(), digest):
            return False
        _known_passwords[seen] = True
    return True


def read_users(path: Path) -> dict[str, tuple[str, bool]]:
    """Return the users of a file: lines of ``NAME:HASH:read`` or ``NAME:HASH:act``.

    Raises:
        SettingsError: the file cannot be read, or a line is not of that form.
    """
    try:
        lines = path.read_text().splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError([f"TIDEMARK_SERVE_USERS: {path} cannot be read: {error}"]) from error
    users = {}
    for number, line in enumerate(lines, 1):
        if not line.strip() or line.startswith("#"):
            continue
        name, _, rest = line.strip().partition(":")
        kept, _, right = rest.rpartition(":")
        if not (name and kept.count("$") == 2 and right in ("read", "act")):
            raise SettingsError(
                [f"{path}:{number}: NAME:HASH:read or NAME:HASH:act is wanted; "
                 "tidemark serve --hash-password makes a hash"]
            )  # fmt: skip
        users[name] = (kept, right == "act")
    return users
