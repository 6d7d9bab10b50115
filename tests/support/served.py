"""A board that listens in this process."""

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from fastapi import FastAPI

from tidemark.board.connections import ConnectionLimits
from tidemark.board.connections import server as server_of

SECONDS = 120.0
"""How long a start or an end may take on a loaded machine."""


@contextmanager
def served(app: FastAPI, limits: ConnectionLimits | None = None) -> Iterator[str]:
    """Serve an application as `tidemark serve` does; yields ``host:port``.

    The port is bound before the server starts: one that is only found free may be taken by a
    broker that another test starts.
    """
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        server = server_of(app, limits)
        thread = threading.Thread(target=server.run, args=([bound],), daemon=True)
        thread.start()
        deadline = time.monotonic() + SECONDS
        while not server.started and thread.is_alive() and time.monotonic() < deadline:
            time.sleep(0.05)
        assert server.started, f"the board does not serve within {SECONDS:.0f} s"
        try:
            yield f"127.0.0.1:{bound.getsockname()[1]}"
        finally:
            server.should_exit = True
            thread.join(timeout=SECONDS)
