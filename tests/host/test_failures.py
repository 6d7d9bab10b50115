"""The text of a failure: one line, without the additions of libraries."""

import pytest

from tidemark.host.failures import DamagedError, essence, one_line
from tidemark.lake.catalog import Lake
from tidemark.lake.query import select
from tidemark.lake.tables import quality
from tidemark.settings.basics import SettingsError
from tidemark.settings.home import Home

JAVA = """An error occurred while calling o12.getResult.
: org.apache.spark.SparkException: Exception thrown in awaitResult:
\tat org.apache.spark.util.ThreadUtils$.awaitResult(ThreadUtils.scala:10)
Caused by: java.io.FileNotFoundException: File /a/b.parquet does not exist
\tat java.base/java.lang.Thread.run(Thread.java:840)
"""
ROOTLESS = JAVA.partition("Caused")[0]
SOCKET = """Failed to connect
Caused by: org.postgresql.util.PSQLException: Connection to 127.0.0.1:5432 refused. Check that
\tat org.postgresql.core.v3.ConnectionFactoryImpl.openConnectionImpl(ConnectionFactoryImpl.java:352)
Caused by: java.net.ConnectException: Connection refused
\tat java.base/sun.nio.ch.Net.pollConnect(Native Method)
"""
SOCKET_ALONE = """Unable to execute HTTP request: Connect to 127.0.0.1:9000 failed
Caused by: java.net.ConnectException: Connection refused
"""
PYTHON = """Invalid Input Error: Python exception: Traceback (most recent call last):
  File "x.py", line 1, in read
OSError: no such file
"""


GONE = """<_InactiveRpcError of RPC that terminated with:
\tstatus = StatusCode.UNAVAILABLE
\tdetails = "failed to connect to all addresses; Connection refused"
\tdebug_error_string = "UNKNOWN:Error received from peer"
>"""


@pytest.mark.parametrize(
    "text, expected",
    [
        ("plain", "plain"),
        ("two\n  lines", "two lines"),
        (JAVA, "java.io.FileNotFoundException: File /a/b.parquet does not exist"),
        (ROOTLESS, "org.apache.spark.SparkException: Exception thrown in awaitResult:"),
        (SOCKET, "PostgreSQL: Connection to 127.0.0.1:5432 refused. Check that"),
        (
            SOCKET_ALONE,
            "Unable to execute HTTP request: Connect to 127.0.0.1:9000 failed Caused by: "
            "java.net.ConnectException: Connection refused",
        ),
        (PYTHON, "OSError: no such file"),
        (
            GONE,
            "the Spark Connect server is gone: failed to connect to all addresses; Connection "
            "refused",
        ),
        ("(x) no [SQL: SELECT 1] (Background on this error at: y)", "(x) no"),
        ("a" * 600, "a" * 497 + "..."),
        ("", ""),
    ],
)  # fmt: skip
def test_the_essence_is_one_line(text, expected):
    assert essence(text) == expected


def test_no_mistake_of_a_settings_file_is_cut_off():
    mistakes = [f"clusters.yaml:{line}: clusters[{line}].namesrv: missing" for line in range(30)]
    assert one_line(SettingsError(mistakes)) == "; ".join(mistakes)


def test_a_damaged_catalog_is_named(tmp_path):
    home = Home.of(tmp_path)
    home.catalog.write_text("garbage")
    with pytest.raises(DamagedError, match=f"{home.catalog}, cannot be used: .* not a database"):
        Lake(home).table("raw.snapshots")


@pytest.mark.parametrize("content", [None, b"", b"garbage"])
@pytest.mark.parametrize("suffix", ["avro", "parquet", "metadata.json"])
def test_a_table_with_a_damaged_file_is_named(lake, suffix, content):
    lake.append(quality.QUARANTINE, [{"table": "raw.topics", "reason": "x", "row": "{}"}])
    for path in (lake.home.warehouse / "quality" / "quarantine").rglob(f"*.{suffix}"):
        path.unlink() if content is None else path.write_bytes(content)
    for read in (Lake.read, select):
        with pytest.raises(DamagedError, match=r"quality\.quarantine cannot be used: .*recompute"):
            read(Lake(lake.home), quality.QUARANTINE)
