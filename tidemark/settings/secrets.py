"""The secrets that each process needs, and values such as placeholders that are not secrets.

The deploy files give each process the secrets of this table and no other; tests hold them to it.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from urllib.parse import urlsplit


class Process(StrEnum):
    """A process of a deployment, by its name in the deploy files."""

    COLLECTOR = "collector"
    ENGINE = "engine"
    CODE = "code"
    DAEMON = "daemon"
    WEBSERVER = "webserver"
    BOARD = "board"


@dataclass(frozen=True, kw_only=True)
class Purpose:
    """Secrets that serve one purpose.

    Attributes:
        name: also that of the file which a deployment keeps them in, ``NAME.env``.
        variables: the variables that hold them.
        processes: the processes that need them.
        is_token: whether the secret itself grants rights here, so that it must not be guessed.
    """

    name: str
    variables: tuple[str, ...] = ()
    processes: tuple[Process, ...]
    is_token: bool = False


PURPOSES = (
    Purpose(
        name="catalog",
        variables=(
            "TIDEMARK_CATALOG_URI",
            "TIDEMARK_STATE_URI",
            "TIDEMARK_CATALOG_CREDENTIAL",
            "TIDEMARK_CATALOG_TOKEN",
        ),
        processes=(Process.COLLECTOR, Process.ENGINE, Process.CODE, Process.BOARD),
    ),
    Purpose(
        name="dagster",
        variables=("DAGSTER_PG_URL",),
        processes=(Process.CODE, Process.DAEMON, Process.WEBSERVER),
    ),
    Purpose(
        name="objects",
        variables=("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"),
        processes=(Process.COLLECTOR, Process.ENGINE, Process.CODE, Process.BOARD),
    ),
    Purpose(
        name="spark",
        variables=("SPARK_CONNECT_AUTHENTICATE_TOKEN",),
        processes=(Process.ENGINE, Process.CODE),
        is_token=True,
    ),
    Purpose(
        name="login",
        variables=("TIDEMARK_SERVE_TOKEN", "TIDEMARK_SERVE_READ_TOKEN"),
        processes=(Process.BOARD,),
        is_token=True,
    ),
    Purpose(
        name="notices",
        variables=("TIDEMARK_NOTIFY_URLS", "TIDEMARK_DIGEST_URLS", "TIDEMARK_HEARTBEAT_URL"),
        processes=(Process.CODE,),
    ),
    # The variables that ``acl`` of clusters.yaml names: accounts of brokers.
    Purpose(name="accounts", processes=(Process.COLLECTOR, Process.CODE, Process.BOARD)),
)

SHORTEST_TOKEN = 16
"""Characters of a token at least."""

_PLACEHOLDER = re.compile(
    r"change[-_ ]?(?:me|it)\b|replace[-_ ]?me\b|<[^<>]+>|(?:^|:)\.{3}(?:$|@)", re.IGNORECASE
)


def is_placeholder(value: str) -> bool:
    """Return whether a value is a placeholder that an example has in place of a secret."""
    return bool(_PLACEHOLDER.search(value))


def purposes_of(process: Process) -> list[Purpose]:
    """Return the purposes that a process needs secrets for."""
    return [purpose for purpose in PURPOSES if process in purpose.processes]


def refused(environment: Mapping[str, str]) -> list[str]:
    """Return a line for each variable whose value is no secret, without that value.

    An empty variable counts as unset; its reader reports that it is missing.

    Args:
        environment: variables and their values.
    """
    faults: list[str] = []
    for purpose in PURPOSES:
        for name in purpose.variables:
            if value := environment.get(name, ""):
                faults += _faults(name, value, purpose.is_token)
    return faults


def _faults(name: str, value: str, is_token: bool) -> Iterable[str]:
    if is_placeholder(value):
        yield f"{name} holds a placeholder: put a secret of your own in its place"
    elif is_token and len(value) < SHORTEST_TOKEN:
        yield (
            f"{name} has {len(value)} characters: a token has {SHORTEST_TOKEN} at least, "
            "as `openssl rand -hex 32` prints it"
        )
    elif not is_token and _has_empty_password(value):
        yield f"{name} has an empty password: write it, or leave out the colon before it"


def _has_empty_password(value: str) -> bool:
    try:
        return value.startswith("postgresql") and urlsplit(value).password == ""
    except ValueError:
        return False  # the reader of the address reports it
