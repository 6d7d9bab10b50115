"""Sends long hostile texts to every place of a request, without the bounds of a request.

``python -m tests.support.hostile_requests HOME``: prints how many requests it sent, and the largest
processor time of one. A request takes some hundredths of a second where work grows with the length
of a text, and minutes where it grows with its square.
"""

import json
import sys
import time
from collections.abc import Callable, Iterator
from urllib.parse import quote

from tests.support.asgi import Header, respond
from tests.support.board_routes import routes
from tidemark.board import application as boards
from tidemark.board.dependencies import query_parameters
from tidemark.board.store import Store
from tidemark.lake.catalog import Lake
from tidemark.settings.home import Home

LENGTH = 100_000
HOSTILE: tuple[Callable[[int], str], ...] = (
    lambda count: "lag" + " " * count + "x",
    lambda count: "1" * count + "x",
    lambda count: "," * count + "x",
    lambda count: "a.1e-*/?&;" * (count // 10),
    lambda count: "[{(\"'\\" * (count // 6),
)
KNOWN = {"cluster": "shop", "group": "billing", "topic": "orders", "clients": "2", "id": "x",
         "incident_id": "x", "silence_id": "x"}  # fmt: skip
PROBES = ("/metrics", "/healthz", "/readyz")
SENDERS = ("accept", "accept-encoding", "accept-language", "authorization", "cookie", "origin",
           "content-type", "host")  # fmt: skip


def requests() -> Iterator[tuple[str, str, str, bytes]]:
    """Yield method, target, content type and body."""
    for route in routes():
        is_api = route.include_in_schema and route.path not in PROBES
        path = ("/api/v1" if is_api else "") + route.path
        for name, value in KNOWN.items():
            path = path.replace(f"{{{name}}}", value)
        if path.endswith("/changes"):
            continue  # it has no end
        parameters = query_parameters(route)
        for method in route.methods or ():
            for make in HOSTILE:
                text = make(LENGTH)
                if method == "GET":
                    for name in parameters:
                        others = KNOWN.items() if name not in KNOWN else ()
                        more = "".join(f"&{k}={v}" for k, v in others if k in parameters)
                        yield method, f"{path}?{name}={quote(text)}{more}", "", b""
                    continue
                bodies = {"match": {"rule": [text]}, "duration": text, "comment": text,
                          "starts_at": text, "reason": text, "cluster": text, "clients": 2,
                          "consumer_group": text, "strategy": text, "rooms": [text]}  # fmt: skip
                body = json.dumps(bodies).encode()
                yield method, path, "application/json", body
                form = "&".join(f"{name}={quote(text)}" for name in ("token", "back", "id"))
                yield method, path, "application/x-www-form-urlencoded", form.encode()
                yield method, path, f"multipart/form-data; boundary={text}", text.encode()
    for make in HOSTILE:
        yield "GET", f"/{quote(make(LENGTH))}", "", b""
        yield "GET", f"/?{'&'.join(['at=1'] * (LENGTH // 5))}", "", b""


def main() -> None:
    """Send them all."""
    store = Store(Lake(Home.of(sys.argv[1])))
    store.refresh()
    try:
        from tidemark.board.middleware import Limits  # earlier versions have none

        bounds = Limits(head=10**9, address=10**9, part=10**9, parameters=10**9, body=10**9)
        app = boards.application(store, limits=bounds)
    except ImportError:
        app = boards.application(store)
    app.state.metrics.refresh()
    times = []

    def send(method: str, target: str, headers: list[Header], body: bytes = b"") -> None:
        started = time.process_time()
        respond(app, target, method=method, headers=headers, body=body)
        times.append(time.process_time() - started)

    for method, target, kind, body in requests():
        send(method, target, [(b"content-type", kind.encode())] if kind else [], body)
    for name in SENDERS:
        for make in HOSTILE:
            for target in ("/groups", "/metrics", "/api/v1/groups"):
                send("GET", target, [(name.encode(), make(LENGTH).encode())])
    sys.stdout.write(f"{len(times)} {max(times):.3f}\n")


if __name__ == "__main__":
    main()
