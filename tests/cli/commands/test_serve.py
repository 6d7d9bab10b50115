"""`tidemark serve`: a failure to listen is one line."""

import socket

from tests.support.commands import output_of
from tidemark.settings.home import Home


def test_an_address_in_use_is_one_line(tmp_path) -> None:
    """The board was announced there, and the command ended with another code than 1."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        line = output_of(Home.of(tmp_path), "serve", "--port", port, code=1)
    assert len(line.splitlines()) == 1
    assert f"--port {port}" in line and "in use" in line and "give another --port" in line
