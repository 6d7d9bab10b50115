"""`tidemark webserver`: Dagster's pages, which no page of another origin can use."""

import typer

from tidemark.cli.invocation import invocation

app = typer.Typer()

PASSED_ON = {"allow_extra_args": True, "ignore_unknown_options": True, "help_option_names": []}


@app.command(context_settings=PASSED_ON)
def webserver(context: typer.Context) -> None:
    """Serve Dagster's pages guarded; takes the options of dagster-webserver, --read-only too.

    Browsers reach them by loopback, by an address, or by a name of TIDEMARK_WEBSERVER_HOSTS.
    """
    from orchestration.instance.files import prepare
    from tidemark.board.access import words
    from tidemark.cli.dagster_guard import serve

    settings = invocation().settings
    prepare(settings.home)
    serve(context.args, frozenset(words(settings.webserver_hosts.lower())))
