"""`tidemark serve`: the board, its API and its pages over HTTP."""

from typing import Annotated

import typer

from tidemark.invocation import invocation

app = typer.Typer()


@app.command()
def serve(
    host: Annotated[str, typer.Option(help="Address to listen at.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="Port to listen at.", min=1, max=65535)] = 8080,
) -> None:
    """Serve the board: pages for people, an API and metrics for programs."""
    import uvicorn

    from board.application import application
    from board.store import Store

    basics = invocation().basics
    store = Store(invocation().lake, lambda: basics.has_history)
    typer.echo(f"serve: the board is at http://{host}:{port}", err=True)
    app = application(store, invocation().settings.metrics)
    uvicorn.run(app, host=host, port=port, log_level="warning", access_log=False)
