"""Servers that a deployment has and Tidemark does not bring: PostgreSQL and an object store.

Each is a real one, started on a free port of loopback in a folder of its own, and ended by its
process when the context closes.
"""

import os
import shutil
import signal
import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from filelock import FileLock

from lab.jars import cache_folder, ivy_command

START_SECONDS = 120
S3PROXY = "4.1.0"
PASSWORD = "p:ss\\word"
"""Of the database's user: with both characters that a password file escapes."""

WANTED = """\
<ivy-module version="2.0" xmlns:m="http://ant.apache.org/ivy/maven">
<info organisation="tidemark" module="tests"/>
<configurations><conf name="default"/></configurations>
<dependencies>
<dependency org="org.gaul" name="s3proxy" rev="{version}" transitive="false">
<artifact name="s3proxy" type="jar" ext="jar" m:classifier="jar-with-dependencies"/>
</dependency>
</dependencies></ivy-module>
"""


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


@contextmanager
def postgresql(folder: Path) -> Iterator[str]:
    """A PostgreSQL of its own with the database ``iceberg``; yields an address with the password.

    It refuses to run as root, so it runs as the user ``postgres`` where the tests do.
    """
    binaries = _postgresql_binaries()
    data, secret, port = folder / "data", folder / "secret", free_port()
    folder.mkdir(parents=True, exist_ok=True)
    secret.write_text(PASSWORD + "\n")
    as_user: tuple[str, ...] = ()
    if os.geteuid() == 0:
        as_user = ("setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups")
        for path in (folder, secret):
            shutil.chown(path, "postgres", "postgres")
        for parent in folder.parents:
            if parent.owner() == "root" and not parent.stat().st_mode & 0o001:
                parent.chmod(parent.stat().st_mode | 0o011)
    initdb = [*as_user, str(binaries / "initdb"), "-D", str(data), "-U", "lake"]
    initdb += ["-A", "scram-sha-256", f"--pwfile={secret}", "-E", "UTF8", "--locale=C.UTF-8", "-N"]
    subprocess.run(initdb, check=True, capture_output=True, cwd=folder)
    server = [*as_user, str(binaries / "postgres"), "-D", str(data), "-p", str(port), "-F"]
    server += ["-c", "listen_addresses=127.0.0.1", "-c", f"unix_socket_directories={folder}"]
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(server, stdout=log, stderr=log, cwd=folder)
    environment = os.environ | {"PGPASSWORD": PASSWORD}
    client = ["-h", "127.0.0.1", "-p", str(port), "-U", "lake"]
    try:
        _until(
            lambda: (
                not subprocess.run(
                    [str(binaries / "createdb"), *client, "iceberg"],
                    env=environment,
                    capture_output=True,
                ).returncode
            ),
            process,
            folder / "log",
        )
        yield f"postgresql://lake:p%3Ass%5Cword@127.0.0.1:{port}/iceberg"
    finally:
        process.send_signal(signal.SIGINT)  # ends connections that are still open
        process.wait(60)


def _postgresql_binaries() -> Path:
    for place in (*sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True),):
        if (place / "initdb").exists():
            return place
    found = shutil.which("initdb")
    if not found:
        pytest.skip("no PostgreSQL server here: apt-get install postgresql")
    return Path(found).resolve().parent


@contextmanager
def object_store(folder: Path) -> Iterator[Bucket]:
    """An S3 server with the bucket ``lake``."""
    bucket, port = folder / "buckets" / "lake", free_port()
    bucket.mkdir(parents=True)
    key = {"AWS_ACCESS_KEY_ID": "lake-key", "AWS_SECRET_ACCESS_KEY": "marked-lake-secret"}
    properties = folder / "s3proxy.conf"
    properties.write_text(
        f"s3proxy.endpoint=http://127.0.0.1:{port}\ns3proxy.authorization=aws-v2-or-v4\n"
        f"s3proxy.identity={key['AWS_ACCESS_KEY_ID']}\n"
        f"s3proxy.credential={key['AWS_SECRET_ACCESS_KEY']}\n"
        f"jclouds.provider=filesystem-nio2\njclouds.filesystem.basedir={bucket.parent}\n"
    )
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            [
                *("java", "-Xmx384m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"),
                *("-jar", str(_s3proxy()), "--properties", str(properties)),
            ],
            stdout=log,
            stderr=log,
        )
    endpoint = f"http://127.0.0.1:{port}"
    try:
        _until(lambda: _answers(endpoint), process, folder / "log")
        yield Bucket(endpoint, bucket, key)
    finally:
        process.terminate()
        process.wait(60)


def _s3proxy() -> Path:
    folder = cache_folder() / "jars" / f"s3proxy-{S3PROXY}"
    folder.mkdir(parents=True, exist_ok=True)
    with FileLock(cache_folder() / "ivy.lock"):
        if not any(folder.glob("*.jar")):
            wanted = folder / "ivy.xml"
            wanted.write_text(WANTED.format(version=S3PROXY))
            subprocess.run(ivy_command(wanted, folder), check=True, capture_output=True)
    (jar,) = folder.glob("*.jar")
    return jar


def _answers(address: str) -> bool:
    try:
        urllib.request.urlopen(address, timeout=5).close()
    except urllib.error.HTTPError:
        return True
    except OSError:
        return False
    return True


def _until(ready, process: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + START_SECONDS
    while not ready():
        assert process.poll() is None, log.read_text(errors="replace")[-2000:]
        assert time.monotonic() < deadline, log.read_text(errors="replace")[-2000:]
        time.sleep(0.2)


def free_port() -> int:
    """Return a port of loopback on which nothing listens now."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        return listening.getsockname()[1]
