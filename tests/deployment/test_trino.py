"""Trino reads the tables of a deployment by the example of the page.

Trino needs a newer Java than Tidemark, and its archive has 800 MB. So this runs where both are:
``TRINO_HOME`` is its unpacked folder, ``TRINO_JAVA`` the folder of its Java.
"""

import json
import os
import re
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import pytest
from sqlalchemy.engine import make_url

from tests.support.board_home import add_snapshots, group
from tests.support.checkout import ROOT
from tests.support.deployments import catalog_in
from tests.support.servers import create_database, free_port, until
from tidemark.lake.catalog import Lake
from tidemark.lake.catalog_config import CatalogConfig
from tidemark.settings.home import Home

TRINO, JAVA = os.environ.get("TRINO_HOME", ""), os.environ.get("TRINO_JAVA", "")

pytestmark = [
    pytest.mark.deployment,
    pytest.mark.skipif(not (TRINO and JAVA), reason="no Trino: TRINO_HOME and TRINO_JAVA name it"),
]

PAGE = (ROOT / "docs" / "reading-tables.md").read_text().split("\n## Trino")[1]
((PROPERTIES, QUERY),) = re.findall(r"```properties\n(.*?)```.*?```sql\n(.*?)```", PAGE, re.S)
CONFIG = """\
coordinator=true
node-scheduler.include-coordinator=true
catalog.config-dir=catalog
plugin.dir=plugin
http-server.http.port={port}
discovery.uri=http://127.0.0.1:{port}
"""


def test_the_example_of_the_page_prints_the_rows(tmp_path, database, store):
    address = make_url(create_database(database, "trino"))
    uri = address.render_as_string(hide_password=False)
    home = Home.of(tmp_path / "home")
    lake = Lake(home, CatalogConfig.of(home, catalog_in(uri, store, "trino/")))
    now = datetime.now(UTC).replace(microsecond=0)
    add_snapshots(lake, {now: [group("mailer", lag=7), group("billing", lag=1234)]})
    places = {
        "HOST:5432/DATABASE": f"{address.host}:{address.port}/{address.database}",
        "READER": str(address.username),
        "PASSWORD": str(address.password).replace("\\", "\\\\"),
        "BUCKET": "lake/trino",
        "https://STORE": store.endpoint,
        "KEY": store.credentials["AWS_ACCESS_KEY_ID"],
        "SECRET": store.credentials["AWS_SECRET_ACCESS_KEY"],
    }
    with trino(tmp_path / "trino", replaced(PROPERTIES, places)) as server:
        rows = result(server, QUERY)
        refused = result(server, "DELETE FROM tidemark.progress.groups")
    assert [(row[0], row[2]) for row in rows] == [("billing", 1234), ("mailer", 7)]
    assert "Access Denied" in refused


def replaced(text: str, places: Mapping[str, str]) -> str:
    """Return the example with values for its words in capitals; each of them must stand in it."""
    assert [word for word in places if word not in text] == []
    return re.sub("|".join(map(re.escape, places)), lambda match: places[match[0]], text)


@contextmanager
def trino(folder: Path, properties: str) -> Iterator[str]:
    """Run a Trino of one process that has the connector of Iceberg only; yield its address."""
    port = free_port()
    for name, text in {
        "config.properties": CONFIG.format(port=port),
        "catalog/tidemark.properties": properties,
    }.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    (folder / "plugin").mkdir()
    (folder / "plugin" / "iceberg").symlink_to(Path(TRINO) / "plugin" / "iceberg")
    command = [str(Path(JAVA) / "bin" / "java"), "-Xmx1g", "-XX:TieredStopAtLevel=1"]
    command += ["--add-modules=jdk.incubator.vector", "-cp", f"{TRINO}/lib/*"]
    command += ["-Dnode.environment=test", f"-Dnode.data-dir={folder}/data"]
    command += ["-Dconfig=config.properties", "io.trino.server.TrinoServer"]
    log, address = folder / "log", f"http://127.0.0.1:{port}"
    with log.open("wb") as output:
        process = subprocess.Popen(command, cwd=folder, stdout=output, stderr=output)
    try:
        until(lambda: "SERVER STARTED" in log.read_text(errors="replace"), process, log)
        yield address
    finally:
        process.terminate()
        process.wait(60)


def result(server: str, statement: str) -> Any:
    """Return the rows of a statement, or the message of its error."""
    headers = {"X-Trino-User": "reader"}
    request = Request(f"{server}/v1/statement", statement.encode(), headers)
    rows: list[list[Any]] = []
    while True:
        with urlopen(request, timeout=60) as response:
            part = json.load(response)
        if "error" in part:
            return part["error"]["message"]
        rows += part.get("data", [])
        if "nextUri" not in part:
            return rows
        request = Request(part["nextUri"], headers=headers)
