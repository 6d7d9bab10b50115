"""A REST catalog that knows its users by OAuth2: it gives tokens, checks them and rotates them."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs
from uuid import uuid4


@dataclass
class Checked:
    """The tokens that the server knows and the requests that it got.

    Attributes:
        address: of the catalog.
        credential: the pair that gets tokens.
        valid: the tokens that open the catalog now.
        scopes: those of the tokens that it gave.
        refused: requests without a valid token, by path.
        seconds: for which a token is valid from then on.
        grants: kinds of the grants that were requested.
    """

    address: str
    credential: tuple[str, str]
    valid: set[str] = field(default_factory=set)
    scopes: list[str] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)
    seconds: int = 3600
    grants: list[str] = field(default_factory=list)

    def rotate(self) -> None:
        """Forget all tokens, as when they have expired."""
        self.valid.clear()


@contextmanager
def oauth2_catalog(credential: str = "", token: str = "") -> Iterator[Checked]:
    """A catalog with one namespace; tokens for a credential, or one fixed token."""
    identity, _, secret = credential.partition(":")

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            if self.headers.get("Authorization", "").removeprefix("Bearer ") not in checked.valid:
                checked.refused.append(self.path)
                error = {"message": "who are you?", "type": "NotAuthorizedException", "code": 401}
                self._send(401, {"error": error})
            elif self.path.startswith("/v1/config"):
                self._send(200, {"defaults": {}, "overrides": {}})
            else:
                self._send(200, {"namespaces": [["progress"]]})

        def do_POST(self) -> None:
            text = self.rfile.read(int(self.headers["Content-Length"])).decode()
            form = {name: values[0] for name, values in parse_qs(text).items()}
            checked.grants.append(form["grant_type"])
            given = form.get("client_id"), form.get("client_secret")
            if given != checked.credential or form["grant_type"] != "client_credentials":
                self._send(401, {"error": "invalid_client"})
                return
            made = str(uuid4())
            checked.valid = {made}
            checked.scopes.append(form.get("scope", ""))
            kind = "urn:ietf:params:oauth:token-type:access_token"
            self._send(
                200,
                {
                    "access_token": made,
                    "token_type": "bearer",
                    "expires_in": checked.seconds,
                    "issued_token_type": kind,
                },
            )

        def _send(self, status: int, content: object) -> None:
            body = json.dumps(content).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    checked = Checked(f"http://127.0.0.1:{server.server_port}", (identity, secret))
    if token:
        checked.valid.add(token)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield checked
    finally:
        server.shutdown()
        server.server_close()
