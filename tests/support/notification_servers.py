"""Real servers that notices are sent to: HTTP, and SMTP as far as a message needs it."""

import json
import socketserver
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from email import message_from_bytes
from email.message import Message
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Event, Thread
from typing import Any


@dataclass(kw_only=True)
class Webhook:
    """A real HTTP server that keeps received requests and responds as configured.

    Attributes:
        url: apprise address.
        status: of its answers.
        response: their body.
        before_response: called when a message was taken and its sender does not know it yet.
        received: the accepted documents.
        headers: of the same requests.
        bodies: of the same requests, as they came.
    """

    url: str
    status: int = 200
    response: bytes = b""
    before_response: Callable[[], object] = lambda: None
    received: list[dict[str, Any]] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    bodies: list[bytes] = field(default_factory=list)

    @property
    def http(self) -> str:
        """Its address for what speaks HTTP itself."""
        return self.url.replace("json://", "http://")


@contextmanager
def serve() -> Iterator[Webhook]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            text = self.rfile.read(int(self.headers["Content-Length"]))
            if hook.status == 200:
                hook.headers.append(dict(self.headers))
                hook.bodies.append(text)
                hook.received.append(json.loads(text))
                hook.before_response()
            self.send_response(hook.status)
            self.send_header("Content-Length", str(len(hook.response)))
            self.end_headers()
            self.wfile.write(hook.response)

        def log_message(self, format: str, *args: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    hook = Webhook(url=f"json://user:s3cret-pass@127.0.0.1:{server.server_port}/t0ken-in-path")
    with _running(server):
        yield hook


@contextmanager
def mailbox() -> Iterator[tuple[str, list[Message]]]:
    """An SMTP server: its apprise address, and the messages it took."""
    received: list[Message] = []

    class Session(socketserver.StreamRequestHandler):
        def send_line(self, line: str) -> None:
            self.wfile.write(line.encode() + b"\r\n")

        def handle(self) -> None:
            self.send_line("220 here")
            while line := self.rfile.readline():
                match line.split(None, 1)[0].upper():
                    case b"DATA":
                        self.send_line("354 go on")
                        lines = iter(self.rfile.readline, b".\r\n")
                        received.append(message_from_bytes(b"".join(lines)))
                        self.send_line("250 taken")
                    case b"QUIT":
                        self.send_line("221 bye")
                        return
                    case _:
                        self.send_line("250 fine")

    server = socketserver.ThreadingTCPServer(("127.0.0.1", 0), Session)
    port = server.server_address[1]
    with _running(server):
        yield f"mailto://127.0.0.1:{port}?from=tidemark@lab.test&to=oncall@lab.test", received


@contextmanager
def _running(server: socketserver.TCPServer) -> Iterator[None]:
    # How often it checks whether it shall end.
    thread = Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@contextmanager
def heartbeats() -> Iterator[tuple[str, list[str]]]:
    """A server that is called as a sign of life: its address, and the paths that were called."""
    called: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            called.append(self.path)
            self.send_response(200)
            self.end_headers()

        def log_message(self, format: str, *args: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    with _running(server):
        yield f"http://127.0.0.1:{server.server_port}/s3cret-uuid", called


@contextmanager
def responding(response: bytes, *, endless: bool = False) -> Iterator[str]:
    """A server that sends these bytes to whoever calls, then breaks off or never ends its body."""

    class Handler(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            self.request.recv(65_536)
            self.request.sendall(response)
            with suppress(OSError):
                while endless and not ended.wait(0.05):
                    self.request.sendall(b"-")

    ended = Event()
    server = socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler)
    with _running(server):
        yield f"http://127.0.0.1:{server.server_address[1]}/s3cret-path"
        ended.set()
