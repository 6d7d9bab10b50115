"""Servers that a deployment has and Tidemark does not bring: PostgreSQL and an object store.

Each is a real one, started on a free port of loopback in a folder of its own, and ended by its
process when the context closes.
"""

import os
import random
import shutil
import signal
import socket
import subprocess
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import pytest
import sqlalchemy as sa
from sqlalchemy.engine import URL, make_url

from tests.support.jars import jars
from tidemark.lab.layout import is_free

START_SECONDS = 300
S3PROXY = "org.gaul:s3proxy:4.1.0:jar-with-dependencies"
PASSWORD = "p:ss\\word"
"""Password of the database's user, with both characters that a password file escapes."""


@dataclass(frozen=True)
class Bucket:
    """A bucket of an object store.

    Attributes:
        endpoint: the address of the store.
        folder: where the store keeps the bucket's objects.
        credentials: the variables that carry the key.
    """

    endpoint: str
    folder: Path
    credentials: dict[str, str]


@dataclass(kw_only=True)
class Server:
    """A server that a test may take away for a while.

    Attributes:
        command: what starts it.
        log: what it prints.
        ready: whether it serves.
        folder: where it runs.
        ended_by: the signal that ends it at once, and its connections.
        process: it, since `start`.
    """

    command: list[str]
    log: Path
    ready: Callable[[], bool]
    folder: Path
    ended_by: int = signal.SIGTERM
    process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it, and wait until it serves."""
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(self.command, stdout=log, stderr=log, cwd=self.folder)
        until(self.ready, self.process, self.log)

    def stop(self) -> None:
        """End it, if it runs."""
        if self.process:
            self.process.send_signal(self.ended_by)
            self.process.wait(60)
            self.process = None


@contextmanager
def postgresql(folder: Path) -> Iterator[str]:
    """A PostgreSQL of its own with the database ``iceberg``; yields an address with the password.

    It refuses to run as root, so it runs as the user ``postgres`` where the tests do. Its data lie
    outside of pytest's folders: each start of a pytest closes those to other users again.

    Args:
        folder: where its log goes.
    """
    with postgresql_server(folder) as (uri, _):
        yield uri


@contextmanager
def postgresql_server(
    folder: Path, certificates: Path | None = None
) -> Iterator[tuple[str, Server]]:
    """As `postgresql`, with the server.

    Args:
        folder: where its log goes.
        certificates: the folder of ``server.pem`` and ``server.key``; then it takes TLS only.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with (
        tempfile.TemporaryDirectory(prefix="tidemark-postgresql-") as place,
        _postgresql(Path(place), folder / "log", certificates) as made,
    ):
        yield made


@contextmanager
def _postgresql(
    place: Path, messages: Path, certificates: Path | None
) -> Iterator[tuple[str, Server]]:
    binaries = postgresql_binaries()
    data, secret, port = place / "data", place / "secret", free_port()
    secret.write_text(PASSWORD + "\n")
    as_user: tuple[str, ...] = ()
    if os.geteuid() == 0:
        as_user = ("setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups")
        for path in (place, secret):
            shutil.chown(path, "postgres", "postgres")
    initdb = [*as_user, str(binaries / "initdb"), "-D", str(data), "-U", "lake"]
    initdb += ["-A", "scram-sha-256", f"--pwfile={secret}", "-E", "UTF8", "--locale=C.UTF-8", "-N"]
    subprocess.run(initdb, check=True, capture_output=True, cwd=place)
    server = [*as_user, str(binaries / "postgres"), "-D", str(data), "-p", str(port), "-F"]
    server += ["-c", "listen_addresses=127.0.0.1", "-c", f"unix_socket_directories={place}"]
    if certificates:
        (data / "pg_hba.conf").write_text("hostssl all all all scram-sha-256\n")
        server += ["-c", "ssl=on"]
        for option, name in (("ssl_cert_file", "server.pem"), ("ssl_key_file", "server.key")):
            copy = shutil.copy(certificates / name, place)
            shutil.chown(copy, data.owner(), data.group())
            Path(copy).chmod(0o600)
            server += ["-c", f"{option}={copy}"]
    environment = os.environ | {"PGPASSWORD": PASSWORD}
    client = ["-h", "127.0.0.1", "-p", str(port), "-U", "lake"]

    def called(program: str, *arguments: str) -> bool:
        command = [str(binaries / program), *client, *arguments]
        return not subprocess.run(command, env=environment, capture_output=True).returncode

    # The signal also ends connections that are still open.
    made = Server(
        command=server,
        log=messages,
        ready=lambda: called("pg_isready", "-d", "postgres"),
        folder=place,
        ended_by=signal.SIGINT,
    )
    try:
        made.start()
        assert called("createdb", "iceberg"), messages.read_text()
        yield f"postgresql://lake:p%3Ass%5Cword@127.0.0.1:{port}/iceberg", made
    finally:
        made.stop()


def postgresql_binaries() -> Path:
    for place in (*sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True),):
        if (place / "initdb").exists():
            return place
    text = shutil.which("initdb")
    if not text:
        pytest.skip("no PostgreSQL server here: apt-get install postgresql")
    return Path(text).resolve().parent


@contextmanager
def object_store(folder: Path) -> Iterator[Bucket]:
    """An S3 server with the bucket ``lake``."""
    with object_store_server(folder) as (bucket, _):
        yield bucket


@contextmanager
def object_store_server(folder: Path) -> Iterator[tuple[Bucket, Server]]:
    """As `object_store`, with the server."""
    bucket, port = folder / "buckets" / "lake", free_port()
    bucket.mkdir(parents=True)
    key = {"AWS_ACCESS_KEY_ID": "lake-key", "AWS_SECRET_ACCESS_KEY": "marked-lake-secret"}
    (jar,) = jars("s3proxy-4.1.0", S3PROXY).glob("*.jar")
    properties = folder / "s3proxy.conf"
    properties.write_text(
        f"s3proxy.endpoint=http://127.0.0.1:{port}\ns3proxy.authorization=aws-v2-or-v4\n"
        f"s3proxy.identity={key['AWS_ACCESS_KEY_ID']}\n"
        f"s3proxy.credential={key['AWS_SECRET_ACCESS_KEY']}\n"
        f"jclouds.provider=filesystem-nio2\njclouds.filesystem.basedir={bucket.parent}\n"
    )
    command = ["java", "-Xmx384m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]
    command += ["-jar", str(jar), "--properties", str(properties)]
    endpoint = f"http://127.0.0.1:{port}"
    made = Server(
        command=command, log=folder / "log", ready=lambda: _answers(endpoint), folder=folder
    )
    try:
        made.start()
        yield Bucket(endpoint, bucket, key), made
    finally:
        made.stop()


def _answers(address: str) -> bool:
    try:
        urllib.request.urlopen(address, timeout=5).close()
    except urllib.error.HTTPError:
        return True
    except OSError:
        return False
    return True


def until(ready: Callable[[], bool], process: subprocess.Popen[bytes], log: Path) -> None:
    """Wait until a started process is ready; show the end of its log when it never is."""
    deadline = time.monotonic() + START_SECONDS
    while not _is(ready):
        assert process.poll() is None, log.read_text(errors="replace")[-2000:]
        assert time.monotonic() < deadline, log.read_text(errors="replace")[-2000:]
        time.sleep(0.2)


def _is(ready: Callable[[], bool]) -> bool:
    with suppress(OSError):  # nothing listens yet
        return ready()
    return False


def free_port() -> int:
    """Return a port of loopback on which nothing listens now.

    It lies below the range of outgoing connections (from 32768 on Linux): one of those takes a
    port of that range before a server that starts for seconds listens on it.
    """
    return next(port for port in iter(lambda: random.randrange(10000, 20000), 0) if is_free(port))


def listens(port: int) -> bool:
    """Return whether something listens on a port of loopback."""
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def create_database(uri: str, name: str) -> str:
    """Make a database beside the one of an address, and return its address."""
    with sa.create_engine(driver_uri(uri), isolation_level="AUTOCOMMIT").connect() as connection:
        connection.execute(sa.text(f'create database "{name}"'))
    return make_url(uri).set(database=name).render_as_string(hide_password=False)


def driver_uri(uri: str) -> URL:
    """The address in SQLAlchemy's words, with the driver that the extra installs."""
    return make_url(uri).set(drivername="postgresql+psycopg2")
