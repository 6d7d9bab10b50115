"""The REST catalog that Iceberg's own tests use, over PostgreSQL and an object store."""

import os
import subprocess
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sqlalchemy.engine import make_url

from tests.support.jars import jars
from tests.support.servers import Bucket, free_port, until
from tests.support.spark_cluster import SPARK

ICEBERG, JETTY = "1.11.0", "12.1.8"
PACKAGES = (
    f"org.apache.iceberg:iceberg-open-api:{ICEBERG}:test-fixtures",
    f"org.apache.iceberg:iceberg-core:{ICEBERG}:,tests",
    f"org.apache.iceberg:iceberg-aws:{ICEBERG}",
    f"org.apache.iceberg:iceberg-aws-bundle:{ICEBERG}",
    "org.postgresql:postgresql:42.7.14",
    "org.slf4j:slf4j-simple:2.0.17",
    f"org.eclipse.jetty.ee10:jetty-ee10-servlet:{JETTY}",
    f"org.eclipse.jetty.compression:jetty-compression-server:{JETTY}",
    f"org.eclipse.jetty.compression:jetty-compression-gzip:{JETTY}",
)


@contextmanager
def rest_catalog(folder: Path, database: str, bucket: Bucket, warehouse: str) -> Iterator[str]:
    """A server whose tables are in a database and whose files are in a bucket; yields its address.

    It asks nobody who he is, so it is for tests only.
    """
    url, port = make_url(database), free_port()
    result = jars(f"rest-{ICEBERG}", *PACKAGES, transitive=True)
    hadoop = SPARK / "jars"
    path = (
        f"{result}/*:{hadoop}/hadoop-client-api-3.4.2.jar:{hadoop}/hadoop-client-runtime-3.4.2.jar"
    )
    settings = {
        "CATALOG_CATALOG__IMPL": "org.apache.iceberg.jdbc.JdbcCatalog",
        "CATALOG_URI": f"jdbc:postgresql://{url.host}:{url.port}/{url.database}",
        "CATALOG_JDBC_USER": str(url.username),
        "CATALOG_JDBC_PASSWORD": str(url.password),
        "CATALOG_JDBC_SCHEMA__VERSION": "V1",
        "CATALOG_WAREHOUSE": warehouse,
        "CATALOG_IO__IMPL": "org.apache.iceberg.aws.s3.S3FileIO",
        "CATALOG_S3_ENDPOINT": bucket.endpoint,
        "CATALOG_S3_PATH__STYLE__ACCESS": "true",
        "CATALOG_CLIENT_REGION": "us-east-1",
        "CATALOG_REST_PORT": str(port),
        "CATALOG_CATALOG_NAME": "tidemark",
    }
    command = ["java", "-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-cp", path]
    folder.mkdir(parents=True)
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            [*command, "org.apache.iceberg.rest.RESTCatalogServer"],
            stdout=log,
            stderr=log,
            cwd=folder,
            env=os.environ | bucket.credentials | settings,
        )
    address = f"http://127.0.0.1:{port}"
    try:
        until(lambda: _serves(address), process, folder / "log")
        yield address
    finally:
        process.terminate()
        process.wait(60)


def _serves(address: str) -> bool:
    try:
        with urllib.request.urlopen(f"{address}/v1/config", timeout=5) as response:
            return response.status == 200
    except OSError:
        return False
