"""Region, endpoint and style of addresses reach every client of an object store, as it sends them.

S3Proxy checks neither the region of a signature nor where the bucket stands in an address. This
server does nothing but record both.
"""

import os
import re
import subprocess
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path, PurePosixPath
from threading import Thread

import pyarrow as pa
import pyspark
import pytest
from pyiceberg.io import load_file_io

from spark.session.packages import packages_of
from tests.support.jars import jars
from tidemark.lab.jars import find
from tidemark.lake.catalog_config import CatalogConfig
from tidemark.settings.home import Home
from tidemark.settings.sections import CatalogSettings, ObjectStore

pytestmark = pytest.mark.deployment

REGION = "eu-north-7"
WRITE = Path(__file__).parents[1] / "support" / "Write.java"

Request = tuple[str, str, str]
"""Host, path and the region of the signature."""


class Recorder(BaseHTTPRequestHandler):
    """Takes every file."""

    requests: list[Request]

    def do_PUT(self) -> None:
        path = re.sub(r"^http://[^/]+|\?.*", "", self.path)
        scope = self.headers["Authorization"].split("/")
        self.requests.append((self.headers["Host"].split(":")[0], path, scope[2]))
        self.do_POST()

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length") or 0))
        self.send_response(200)
        self.send_header("ETag", '"1"')
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def recorder(monkeypatch) -> Iterator[ThreadingHTTPServer]:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "key")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    monkeypatch.setattr(Recorder, "requests", [], raising=False)
    with ThreadingHTTPServer(("127.0.0.1", 0), Recorder) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield server
        server.shutdown()


def reached(endpoint: str, path_style: bool) -> CatalogConfig:
    store = ObjectStore(endpoint, REGION, path_style)
    settings = CatalogSettings(warehouse="s3://lake/w", landing="s3://lake/l", store=store)
    return CatalogConfig.of(Home.of("/srv/tidemark"), settings)


STYLES = pytest.mark.parametrize(
    ("path_style", "host", "prefix"), [(True, "{}", "/lake"), (False, "lake.{}", "")]
)


@STYLES
def test_python_reaches_tables_and_landing_as_set(recorder, path_style, host, prefix):
    config = reached(f"http://localhost:{recorder.server_port}", path_style)
    files = load_file_io(dict(config.python), config.python["warehouse"])
    with files.new_output("s3://lake/w/file").create(overwrite=True) as output:
        output.write(b"1")
    assert config.landing
    config.landing.write(PurePosixPath("lake/l/file"), pa.py_buffer(b"1"))
    expected = [(host.format("localhost"), f"{prefix}/{part}/file", REGION) for part in ("w", "l")]
    assert Recorder.requests == expected


@STYLES
def test_spark_reaches_tables_as_set(recorder, path_style, host, prefix):
    """Java resolves no name below localhost, so the server is the proxy of any other host."""
    config = reached("http://store:9000", path_style)
    of_spark = Path(pyspark.__file__).parent / "jars" / "*"
    needed = jars("spark-s3-1.12.0", *packages_of(["s3"])) / "*"
    proxy = ["-Dhttp.proxyHost=127.0.0.1", f"-Dhttp.proxyPort={recorder.server_port}"]
    properties = [f"{name}={value}" for name, value in config.spark.items()]
    command = [find("java"), *proxy, "-cp", f"{needed}{os.pathsep}{of_spark}", str(WRITE)]
    done = subprocess.run([*command, *properties], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert Recorder.requests == [(host.format("store"), f"{prefix}/w/file", REGION)]
