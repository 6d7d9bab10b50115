"""The fork server: a process that imports the modules of runs once and forks for every run."""

import ctypes
import gc
import importlib
import json
import os
import selectors
import signal
import socket
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

from tidemark.embedded import forking
from tidemark.host.processes import become

PRELOADED = (
    "apprise",
    "dagster",
    "dagster._cli",
    "dagster._core.execution.execute_in_process",
    "dagster._core.instance.factory",
    "dagster._core.instance.runs.run_domain",
    "dagster._core.storage.legacy_storage",
    "dagster._core.storage.local_compute_log_manager",
    "dagster._core.storage.sqlite_storage",
    "dagster._core.storage.upath_io_manager",
    "dagster_pyspark",
    "great_expectations",
    "msgspec",
    "pyarrow.dataset",
    "pyarrow.parquet",
    "pyiceberg.catalog.sql",
    "pyiceberg.io.pyarrow",
    "pyiceberg.table.deletion_vector",
    "pyspark.sql.connect.session",
    "pyspark.sql.connect.window",
    "structlog",
    "typer",
    "upath.implementations.local",
    "yaml",
    "expectations.gx_suite",
    "orchestration.definitions",
    "orchestration.in_process",
    "tidemark.embedded.event_log",
    "tidemark.embedded.storage",
    "tidemark.cli.main",
    "tidemark.cli.commands.tick",
    "tidemark.cli.output",
    "tidemark.cli.snapshot_command",
)
"""The modules that a run spends its first seconds on: libraries, then Tidemark's own. None may read
the environment while it is imported, because each run has its own."""

SELDOM = (1_000_000, 10, 10)
"""Thresholds of the garbage collector in a run: it makes rows by the hundred thousand, keeps them
and ends. Visited at every 100,000th object, 10,000 incidents still took a tenth longer."""

_PR_SET_PDEATHSIG = 1


class _Server:
    """Forks for each request and reports to each client how its process ended."""

    def __init__(self, path: str, installation: str) -> None:
        self._installation = installation
        self._is_stale = False
        self._selector = selectors.DefaultSelector()
        self._listener = socket.socket(socket.AF_UNIX)
        # Left by the process that this one replaced.
        Path(path).unlink(missing_ok=True)
        self._listener.bind(path)
        self._listener.listen()
        self._selector.register(self._listener, selectors.EVENT_READ, self._accept)
        self._pids: set[int] = set()

    def serve(self) -> dict[str, Any] | None:
        """Serve while the installation does not change, and then until the last run ends.

        Returns:
            The request, in a process forked for it. None in the server, which must be restarted.
        """
        while not self._is_stale or self._pids:
            for key, _ in self._selector.select():
                request = key.data()
                if request is not None:
                    return request
        return None

    def stop(self) -> None:
        """End every run under way."""
        for pid in self._pids:
            os.kill(pid, signal.SIGTERM)

    def _accept(self) -> dict[str, Any] | None:
        client, _ = self._listener.accept()
        client.settimeout(5)
        streams: list[int] = []
        request: dict[str, Any] = {}
        try:
            length, streams, _, _ = socket.recv_fds(client, forking.LENGTH_BYTES, 3)
            body = _read(client, int.from_bytes(length, "big"))
            request = json.loads(body)
            self._is_stale |= request["installation"] != self._installation
            # Without memory for a process the client does the run itself, as with a stale server.
            pid = None if self._is_stale else os.fork()
        except (OSError, ValueError):
            pid = None
        if pid == 0:
            client.settimeout(None)
            self._become_run(client, streams, request)
            return request
        for stream in streams:
            os.close(stream)
        if pid is None:
            _send(client, forking.STALE)
            return None
        client.settimeout(None)
        self._pids.add(pid)
        self._watch(pid, client, detached=request["detached"])
        return None

    def _become_run(self, client: socket.socket, streams: list[int], request: Any) -> None:
        # Without its server a run would continue unseen by its client.
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        become(streams, Path(request["folder"]), request["environment"])
        for key in list(self._selector.get_map().values()):
            _close(key.fileobj)
        self._selector.close()
        client.close()
        for stream in streams:
            os.close(stream)

    def _watch(self, pid: int, client: socket.socket, *, detached: bool) -> None:
        ended = os.pidfd_open(pid)
        if detached:
            _send(client, str(pid).encode())

        def on_end() -> None:
            _, status = os.waitpid(pid, 0)
            self._pids.discard(pid)
            self._forget(ended)
            if not detached:
                self._forget(client)
                _send(client, str(os.waitstatus_to_exitcode(status)).encode())

        def on_word() -> None:
            """A signal for the run, or the client's end: then the run ends too, at once."""
            if pid not in self._pids:
                return  # The run ended in the same moment, which was handled before.
            word = _received(client)
            os.kill(pid, word[0] if word else signal.SIGKILL)
            if not word:
                self._selector.unregister(client)

        self._selector.register(ended, selectors.EVENT_READ, on_end)
        if not detached:
            self._selector.register(client, selectors.EVENT_READ, on_word)

    def _forget(self, watched: Any) -> None:
        if watched in self._selector.get_map():
            self._selector.unregister(watched)
        if isinstance(watched, int):
            os.close(watched)


def _send(client: socket.socket, reply: bytes) -> None:
    """Send the last reply to a client, unless it has ended meanwhile."""
    with client, suppress(OSError):
        client.sendall(reply)


def _received(client: socket.socket) -> bytes:
    """Return one byte of a client, none where it has ended."""
    with suppress(OSError):
        return client.recv(1)
    return b""


def _close(watched: Any) -> None:
    os.close(watched) if isinstance(watched, int) else watched.close()


def _read(client: socket.socket, length: int) -> bytes:
    body = b""
    while len(body) < length:
        part = client.recv(length - len(body))
        if not part:
            raise OSError("the client went away")
        body += part
    return body


def main() -> None:
    """Import the modules of runs, serve the named socket, and do a run in each forked process."""
    installation = forking.installation()
    for name in PRELOADED:
        importlib.import_module(name)
    # Not at the top of this module, because the installation is identified before any import.
    from tidemark.alerting.rules.files import ready_made_rules
    from tidemark.embedded.dagster_private import read_migrations

    read_migrations()
    ready_made_rules()  # 20,000 characters of YAML
    # Imported objects stay. A garbage collection that visited them would copy their pages into
    # every run.
    gc.freeze()
    server = _Server(sys.argv[1], installation)
    signal.signal(signal.SIGINT, signal.SIG_IGN)

    def on_terminate(*_: object) -> None:
        server.stop()
        sys.exit(0)

    signal.signal(signal.SIGTERM, on_terminate)
    request = server.serve()
    if request is None:
        # The process stays the same, so that others can still find and stop it.
        os.execv(sys.executable, [sys.executable, "-m", __spec__.name, sys.argv[1]])
    gc.set_threshold(*SELDOM)
    forking.forked = True
    sys.argv = [request["module"], *request["arguments"]]
    importlib.import_module(request["module"]).main()


if __name__ == "__main__":
    main()
