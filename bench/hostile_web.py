"""The cost of hostile clients to the board: passwords, addresses, connections, live reads, plans.

``python -m bench.hostile_web [--before CHECKOUT] [--seconds 8]`` starts `tidemark serve` of this
tree, and of CHECKOUT (an earlier version, which may lack a ``.venv``), on a small made-up home. It
does the same to both and prints what it cost. Figures of ``/healthz`` are of another client
meanwhile, which waits at most `PATIENCE` seconds.
"""

import argparse
import base64
import hashlib
import http.client
import itertools
import json
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import psutil

from bench import report
from tidemark.lab.layout import free_port_base

ROOT = Path(__file__).parent.parent
PATIENCE = 60.0
CLIENTS = 16
READERS = 45
SILENT = 4
"""Name servers that accept connections and say nothing."""

IDLE = 300
FILES = 256
"""Files that the board may open while it has idle connections."""

BLANKS = 60_000

HOME = """
import sys
from datetime import UTC, datetime
from bench.made_up import MadeUp
from tidemark.lake.catalog import Lake
from tidemark.settings.home import Home
end = datetime.now(UTC).replace(second=0, microsecond=0)
sizes = {"groups": 5, "topics_per_group": 1, "topics": 5, "queues": 4}
made_up = MadeUp(**sizes, days=0.05, queue_days=0.05, end=end)
made_up.write(Lake(Home.of(sys.argv[1])))
print(made_up.name(0), made_up.topic(0))
"""
"""Writes a home; each checkout does it with its own code."""

PLAN = """
import inspect, json, sys, time
from datetime import UTC, datetime
from fastapi.testclient import TestClient
from tidemark.board.application import application
try:
    from tidemark.board.views.live import LiveSnapshots
except ImportError:  # an earlier checkout
    from tidemark.board.live_snapshots import LiveSnapshots
from tidemark.board.store import Store
from tidemark.lake.catalog import Lake
from tidemark.rocketmq.records import ConsumerOffset, Snapshot, Topic
from tidemark.settings.home import Home
now = datetime.now(UTC)
taken = Snapshot(cluster="shop", source="remote", observed_at=now, status="COMPLETE")
configured = {"broker": "broker-a", "topic": "orders", "read_queues": 8, "write_queues": 8}
configured |= {"perm": 6, "message_type": "NORMAL", "kind": "normal"}
committed = {"broker": "broker-a", "consumer_group": "billing", "topic": "orders", "queue_id": 0}
committed |= {"client_id": None, "consumer_offset": 5}
taken.topics = [Topic(**configured)]
taken.consumer_offsets = [ConsumerOffset(**committed)]
class Live:
    def of(self, name):
        return taken
class AsynchronousLive:
    async def of(self, name):
        return taken
store = Store(Lake(Home.of(sys.argv[1])))
store.refresh()
app = application(store)
fake = AsynchronousLive if inspect.iscoroutinefunction(LiveSnapshots.of) else Live
app.state.views.live = fake()
client = TestClient(app, "http://127.0.0.1")
client.get("/plan?cluster=shop&group=billing&clients=2")
for query in ("clients=10000&queues=9999", "clients=10000", "clients=1000&queues=5000"):
    started = time.process_time()
    response = client.get(f"/plan?cluster=shop&group=billing&{query}&strategy=CONSISTENT_HASH")
    took = time.process_time() - started
    print(json.dumps([query, response.status_code, took, len(response.content)]))
"""
"""Requests plans of a small group, of a snapshot that needs no broker."""


FLOOD = """
import base64, http.client, sys, threading
host, port, clients, path = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
def flood(client):
    number = 0
    while True:
        number += 1
        text = base64.b64encode(f"ann:wrong {client} {number}".encode()).decode()
        headers = {"Authorization": f"Basic {text}"} if path == "/groups" else {}
        connection = http.client.HTTPConnection(host, port, 600, source_address=("127.0.0.2", 0))
        try:
            connection.request("GET", path, headers=headers)
            connection.getresponse().read()
            sys.stdout.write("x")
            sys.stdout.flush()
        except (OSError, http.client.HTTPException):
            pass
        connection.close()
for client in range(clients):
    threading.Thread(target=flood, args=(client,)).start()
"""
"""Requests a path as fast as the board responds, and writes a letter for each response.

For ``/groups`` with wrong passwords. A process of its own, so that its threads do not delay the
client that measures.
"""


class Board:
    """A board of a checkout, and its home."""

    def __init__(self, checkout: Path, home: Path) -> None:
        self.checkout = checkout
        self.home = home
        self.environment = {
            **{name: text for name, text in os.environ.items() if "TIDEMARK" not in name},
            "PYTHONPATH": str(checkout),
            "TIDEMARK_HOME": str(home),
        }
        group, topic = self.run(HOME).split()
        columns = "lag" + "+" * BLANKS + "x"
        self.blanks = f"/api/v1/groups/shop/{group}/{topic}/history?columns={columns}"

    def run(self, script: str) -> str:
        """Run a script with the code of the checkout; return its output."""
        return subprocess.run(
            [sys.executable, "-c", script, str(self.home)],
            cwd=self.checkout, env=self.environment, check=True, stdout=subprocess.PIPE, text=True,
        ).stdout  # fmt: skip

    @contextmanager
    def served(
        self, settings: Mapping[str, str] | None = None, *, files: int = 0
    ) -> Iterator["Served"]:
        """Serve it with some settings."""
        port = free_port_base()
        command = "from tidemark.cli.main import main; main()"
        limited = ["prlimit", f"--nofile={files}"] if files else []
        with subprocess.Popen(
            [*limited, sys.executable, "-c", command, "serve", "--port", str(port)],
            cwd=self.checkout,
            env=self.environment
            | {f"TIDEMARK_{name}": text for name, text in (settings or {}).items()},
            stderr=subprocess.DEVNULL,
        ) as process:
            try:
                served = Served(f"127.0.0.1:{port}", psutil.Process(process.pid))
                while process.poll() is None and served.get("/healthz").status != 200:
                    time.sleep(0.1)
                served.get("/groups")
                yield served
            finally:
                process.kill()


class Response:
    """Status and seconds of a response; status 0 where none came."""

    def __init__(self, status: int, seconds: float) -> None:
        self.status = status
        self.seconds = seconds


class Flood:
    """Clients that request a path without a pause."""

    def __init__(self, file: int) -> None:
        self._file = file

    @property
    def responses(self) -> int:
        """Number of responses so far."""
        return os.fstat(self._file).st_size


class Served:
    """A board that listens."""

    def __init__(self, address: str, process: psutil.Process) -> None:
        self.address = address
        self.process = process

    def get(self, path: str, source: str = "127.0.0.1", password: str = "") -> Response:
        """Request an address, as a peer."""
        host, _, port = self.address.partition(":")
        connection = http.client.HTTPConnection(
            host, int(port), timeout=PATIENCE, source_address=(source, 0)
        )
        text = base64.b64encode(f"ann:{password}".encode()).decode()
        headers = {"Authorization": f"Basic {text}"} if password else {}
        started = time.perf_counter()
        status = 0
        with suppress(OSError, http.client.HTTPException):
            connection.request("GET", path, headers=headers)
            response = connection.getresponse()
            response.read()
            status = response.status
        connection.close()
        return Response(status, time.perf_counter() - started)

    @contextmanager
    def flooded(self, path: str, clients: int) -> Iterator["Flood"]:
        """Let clients request a path without a pause."""
        host, _, port = self.address.partition(":")
        command = [sys.executable, "-c", FLOOD, host, port, str(clients), path]
        with (
            tempfile.TemporaryFile() as responses,
            subprocess.Popen(command, stdout=responses) as process,
        ):
            time.sleep(1)
            yield Flood(responses.fileno())
            process.kill()

    @property
    def cpu(self) -> float:
        """Seconds of processor time so far."""
        times = self.process.cpu_times()
        return times.user + times.system

    def health_until(self, ended: Callable[[], bool]) -> str:
        """Request ``/healthz`` every tenth of a second; return the median and the longest."""
        took = []
        while not took or not ended():
            response = self.get("/healthz", "127.0.0.9")
            took.append(response.seconds if response.status == 200 else PATIENCE)
            time.sleep(0.1)
        took.sort()
        return f"{_shown(took[len(took) // 2])}, {_shown(took[-1])}"


def _shown(seconds: float) -> str:
    if seconds >= PATIENCE:
        return f"none within {PATIENCE:.0f} s"
    return f"{seconds * 1000:.0f} ms" if seconds < 1 else f"{seconds:.1f} s"


def passwords(board: Board, seconds: float) -> Iterator[tuple[str, str]]:
    """Wrong passwords of one peer; with a file of users, and with tokens alone."""
    salt = os.urandom(16)
    digest = hashlib.scrypt(b"right", salt=salt, n=2**14, r=8, p=1)
    users = board.home.parent / f"users-{board.home.name}"
    users.write_text(f"ann:scrypt${salt.hex()}${digest.hex()}:act\n")
    logins = {"users": {"SERVE_USERS": str(users)}, "tokens alone": {"SERVE_TOKEN": "t" * 40}}
    for name, settings in logins.items():
        with board.served(settings) as served:
            if name == "users":
                at = time.monotonic() + 3
                health = served.health_until(lambda at=at: time.monotonic() > at)
                yield "nothing: `/healthz`, median and longest", health
            label = f"{CLIENTS} clients send wrong passwords, {name}"
            before = served.cpu
            with served.flooded("/groups", CLIENTS) as flood:
                at = time.monotonic() + seconds
                health = served.health_until(lambda at=at: time.monotonic() > at)
                yield f"{label}: `/healthz`, median and longest", health
                if name == "users":
                    colleague = served.get("/groups", "127.0.0.3", "right")
                    shown = f"{colleague.status} in {_shown(colleague.seconds)}"
                    yield f"{label}: the right one of another peer", shown
                cost = (served.cpu - before) / max(1, flood.responses)
            yield f"{label}: CPU of one", f"{cost * 1000:.1f} ms"


def addresses(board: Board) -> Iterator[tuple[str, str]]:
    """One address with many blanks."""
    with board.served() as served:
        before = served.cpu
        response = served.get(board.blanks)
        yield (
            f"one `columns=lag` with {BLANKS:,} blanks: CPU, status",
            f"{served.cpu - before:.2f} s, {response.status or 'none'}",
        )


def unreachable(board: Board) -> Iterator[tuple[str, str]]:
    """Readers of a cluster whose name server does not respond."""
    with ExitStack() as stack:
        ports = [
            stack.enter_context(socket.create_server(("127.0.0.1", 0), backlog=200)).getsockname()
            for _ in range(SILENT)
        ]
        addresses = ";".join(f"127.0.0.1:{port}" for _, port in ports)
        served = stack.enter_context(board.served({"NAMESRV": addresses}))
        stack.enter_context(served.flooded("/api/v1/live/quiet", READERS))
        deadline = time.monotonic() + 8
        health = served.health_until(lambda: time.monotonic() > deadline)
        yield f"{READERS} readers of an unreachable cluster: `/healthz`, median and longest", health


def connections(board: Board) -> Iterator[tuple[str, str]]:
    """Connections that send nothing, and heads without an end."""
    with board.served(files=FILES) as served, ExitStack() as stack:
        host, _, port = served.address.partition(":")
        for _ in range(IDLE):
            stack.enter_context(socket.create_connection((host, int(port)), PATIENCE))
        yield (
            f"{IDLE} idle connections, {FILES} files: `/healthz`, `/groups`",
            f"{_shown_status(served.get('/healthz'))}, {_shown_status(served.get('/groups'))}",
        )
    with board.served() as served:
        host, _, port = served.address.partition(":")
        before, sent = served.process.memory_info().rss, 0
        with socket.create_connection((host, int(port)), 5) as endless, suppress(OSError):
            endless.sendall(b"GET /healthz HTTP/1.1\r\nX: ")
            while sent < 64 * 2**20:
                endless.sendall(b"x" * 65_536)
                sent += 65_536
        grown = max(0, served.process.memory_info().rss - before)
        yield (
            "a header without an end: taken, memory",
            f"{sent / 2**20:.1f} MiB, +{grown / 2**20:.0f} MiB",
        )


def _shown_status(response: Response) -> str:
    if response.seconds >= PATIENCE or not response.status:
        return _shown(PATIENCE)
    return f"{response.status} in {_shown(response.seconds)}"


def plans(board: Board) -> Iterator[tuple[str, str]]:
    """Plans of many members and queues."""
    for line in board.run(PLAN).splitlines():
        query, status, took, size = json.loads(line)
        yield (
            f"`/plan?{query}`: CPU, status, size",
            f"{took:.2f} s, {status}, {size / 1000:,.0f} kB",
        )


def measured(checkout: Path, home: Path, seconds: float) -> dict[str, str]:
    """Return the cost of each attack for a checkout."""
    board = Board(checkout, home)
    texts: dict[str, str] = {}
    parts = (passwords(board, seconds), addresses(board), unreachable(board), connections(board))
    for name, shown in itertools.chain(*parts, plans(board)):
        sys.stdout.write(f"{name}: {shown}\n")
        sys.stdout.flush()
        texts[name] = shown
    return texts


def main() -> None:
    """Measure, print the table and write it to the report."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--before", type=Path, help="a checkout of an earlier version")
    parser.add_argument("--seconds", type=float, default=8, help="of wrong passwords")
    options = parser.parse_args()
    sides = {"before": options.before.resolve()} if options.before else {}
    sides["now"] = ROOT
    with tempfile.TemporaryDirectory(prefix="tidemark-hostile-") as folder:
        costs = {}
        for name, checkout in sides.items():
            sys.stdout.write(f"{name}\n")
            costs[name] = measured(checkout, Path(folder) / name, options.seconds)
    rows = [(name, *(costs[side][name] for side in sides)) for name in costs["now"]]
    load = f"{os.getloadavg()[0]:.0f} processes waited for a processor on the average."
    text = "\n\n".join(
        [
            "## Hostile clients of the board",
            "`python -m bench.hostile_web --before CHECKOUT`: what clients without a login cost.",
            f"{report.machine()}; {load} A client waits at most {PATIENCE:.0f} s.",
            report.table(("what", *sides), rows),
        ]
    )
    report.write_section("hostile_web", text)
    sys.stdout.write(text + "\n")


if __name__ == "__main__":
    main()
