"""The option of commands that reach a cluster, without what they import to reach it."""

from typing import Annotated

import typer

NamesrvOption = Annotated[
    str,
    typer.Option(
        "--namesrv",
        help="Name servers, HOST:PORT separated by ';', else TIDEMARK_NAMESRV.",
    ),
]
