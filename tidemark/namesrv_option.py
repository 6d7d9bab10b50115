"""The ``--namesrv`` option of commands, apart from the modules that reach a cluster."""

from typing import Annotated

import typer

NamesrvOption = Annotated[
    str,
    typer.Option(
        "--namesrv",
        help="Name servers, HOST:PORT separated by ';', else TIDEMARK_NAMESRV.",
    ),
]
