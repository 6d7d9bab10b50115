"""`tidemark serve`: the board, its API and its pages over HTTP."""

import getpass
import socket
from collections.abc import Iterable
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tidemark.cli.invocation import CommandError, invocation, me

if TYPE_CHECKING:
    from tidemark.board.access import Login
    from tidemark.settings.environment import Settings
    from tidemark.settings.owners import WatchedOwners
    from tidemark.settings.sections import OtlpSettings

app = typer.Typer()


@app.command()
def serve(
    host: Annotated[str, typer.Option(help="Address to listen at.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="Port to listen at.", min=1, max=65535)] = 8080,
    hash_password: Annotated[
        bool,
        typer.Option(
            "--hash-password", help="Print what the file of users keeps of a password, and end."
        ),
    ] = False,
) -> None:
    """Serve the board: pages for people, an API and metrics for programs.

    On an address that other machines reach, a login must be configured: TIDEMARK_SERVE_TOKEN,
    TIDEMARK_SERVE_USERS or TIDEMARK_SERVE_HEADER.
    """
    if hash_password:
        from tidemark.board.passwords import password_hash

        typer.echo(password_hash(getpass.getpass("password: ")))
        return
    from tidemark.board.access import is_loopback

    invoked = invocation()
    login = login_of(invoked.settings)
    owners = owners_of(invoked.settings, login)
    otlp = _otlp_of(invoked.settings)
    if not is_loopback(host) and not login.is_configured:
        raise CommandError(
            f"--host {host}: other machines reach it, so a login is needed: set "
            "TIDEMARK_SERVE_TOKEN, TIDEMARK_SERVE_USERS or TIDEMARK_SERVE_HEADER"
        )
    listening = _listening(host, port)
    from tidemark.board.application import application
    from tidemark.board.connections import server
    from tidemark.board.store import Store
    from tidemark.settings.clusters import configured

    basics = invoked.basics
    board = application(
        Store(invoked.lake, lambda: basics.has_history),
        invoked.settings.metrics,
        login,
        lambda: configured(basics.home, basics.namesrv, basics.cluster, basics.clusters),
        me(),
        dagster_url=invoked.settings.dagster_url,
        serves_agents=_serves_agents(invoked.settings.serve_mcp),
        owners=owners,
        otlp=otlp,
    )
    typer.echo(f"serve: the board is at {address_of(host, port)}", err=True)
    with suppress(KeyboardInterrupt):
        server(board).run(sockets=[listening])


def _otlp_of(settings: "Settings") -> "OtlpSettings | None":
    """Return where metrics are sent by OTLP.

    Raises:
        SettingsError: the file of headers cannot be used.
        CommandError: a collector is named, and the packages of the protocol are missing.
    """
    if (otlp := settings.otlp) is None:
        return None
    otlp.headers()
    try:
        import opentelemetry.exporter.otlp.proto.http.metric_exporter  # noqa: F401
    except ModuleNotFoundError as error:
        raise CommandError(
            f"TIDEMARK_OTLP_ENDPOINT: the package {error.name} is missing; install the "
            "extra otlp of tidemark, or unset the variable"
        ) from None
    return otlp


def _serves_agents(wanted: bool) -> bool:
    """Return whether agents get their tools.

    Raises:
        CommandError: they are wanted, and the package of the protocol is missing.
    """
    if wanted and find_spec("mcp") is None:
        raise CommandError(
            "TIDEMARK_SERVE_MCP: the package mcp is missing; install the extra mcp of tidemark, "
            "or unset the variable"
        )
    return wanted


def _listening(host: str, port: int) -> socket.socket:
    """Return a socket that listens, before the tables are read and the address is announced.

    Raises:
        CommandError: the address cannot be used, with the reason.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host.strip("[]"), port), family=family)
    except OSError as error:
        raise CommandError(
            f"--host {host} --port {port}: {error.strerror}; give another --port or --host"
        ) from error


def address_of(host: str, port: int) -> str:
    """Return the address of the board for a browser, with brackets around a host of IPv6."""
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def login_of(settings: "Settings") -> "Login":
    """Return how persons log in, by the settings.

    Raises:
        SettingsError: the file of users cannot be used, or no proxy is named.
    """
    from tidemark.board.access import Login, Person, networks, words
    from tidemark.board.passwords import read_users
    from tidemark.settings.basics import SettingsError

    try:
        proxies = networks(settings.serve_proxies)
    except ValueError as error:
        raise SettingsError([f"TIDEMARK_SERVE_PROXIES: {error}"]) from error
    if settings.serve_header and not proxies:
        raise SettingsError(
            ["TIDEMARK_SERVE_PROXIES: TIDEMARK_SERVE_HEADER is believed of the addresses or "
             "networks that stand here alone, and none does"]
        )  # fmt: skip

    tokens = {
        settings.serve_read_token.get_secret_value(): Person("token (read)", may_act=False),
        settings.serve_token.get_secret_value(): Person("token", may_act=True),
    }
    return Login(
        tokens={token: person for token, person in tokens.items() if token},
        users=read_users(Path(settings.serve_users)) if settings.serve_users else {},
        header=settings.serve_header,
        proxies=proxies,
        hosts=frozenset(words(settings.serve_hosts.lower())),
        actors=frozenset(words(settings.serve_actors)),
        teams=_teams(words(settings.serve_teams)),
    )


def _teams(pairs: Iterable[str]) -> dict[str, frozenset[str] | None]:
    """Return name to teams of a setting.

    Raises:
        SettingsError: a word is no pair of them.
    """
    from tidemark.board.passwords import teams_of
    from tidemark.settings.basics import SettingsError

    teams: dict[str, frozenset[str] | None] = {}
    for pair in pairs:
        name, _, text = pair.rpartition("=")
        if not (name and text):
            raise SettingsError(
                [f"TIDEMARK_SERVE_TEAMS: NAME=TEAM is wanted, with + between teams, not {pair!r}"]
            )
        teams[name] = teams_of(text)
    return teams


def owners_of(settings: "Settings", login: "Login") -> "WatchedOwners":
    """Return the owners of groups, by the settings.

    Raises:
        SettingsError: the file has a mistake, or a user has a team that it does not name.
    """
    from tidemark.settings.basics import SettingsError
    from tidemark.settings.owners import WatchedOwners

    file = settings.owners_file
    watched = WatchedOwners(file)
    known = watched.now().teams
    if watched.mistakes:
        raise SettingsError(list(watched.mistakes))
    users = [*((name, user.teams) for name, user in login.users.items()), *login.teams.items()]
    mistakes = [
        f"{name!r} is of team {team!r}, which {file.path} does not name"
        for name, teams in users
        for team in sorted((teams or frozenset()) - known)
    ]
    if mistakes:
        raise SettingsError(mistakes)
    return watched
