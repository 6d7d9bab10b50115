"""Jars come from Maven Central, or from the mirror of an Ivy settings file."""

import subprocess
import zipfile
from pathlib import Path

import pytest

from tidemark.lab.jars import fetch, fetch_broker, ivy_command

pytestmark = pytest.mark.spark  # Ivy is a jar of PySpark

WANTED = """\
<ivy-module version="2.0"><info organisation="tidemark" module="tests"/>
<configurations><conf name="default"/></configurations>
<dependencies><dependency org="example.mirror" name="only-here" rev="1.0"
 conf="default-&gt;default"/></dependencies></ivy-module>
"""
SETTINGS = """\
<ivysettings><settings defaultResolver="mirror"/><resolvers>
<filesystem name="mirror" m2compatible="true">
<ivy pattern="{0}/[organisation]/[module]/[revision]/[artifact]-[revision].pom"/>
<artifact pattern="{0}/[organisation]/[module]/[revision]/[artifact]-[revision].[ext]"/>
</filesystem></resolvers></ivysettings>
"""
POM = """\
<project><modelVersion>4.0.0</modelVersion>
<groupId>example.mirror</groupId><artifactId>only-here</artifactId><version>1.0</version></project>
"""


def test_jars_come_from_the_mirror_of_the_settings_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "mirror" / "example" / "mirror" / "only-here" / "1.0"
    folder.mkdir(parents=True)
    (folder / "only-here-1.0.pom").write_text(POM)
    with zipfile.ZipFile(folder / "only-here-1.0.jar", "w") as jar:
        jar.writestr("a", "b")
    (tmp_path / "ivy.xml").write_text(WANTED)
    (tmp_path / "settings.xml").write_text(SETTINGS.format(tmp_path / "mirror"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("TIDEMARK_IVY_SETTINGS", str(tmp_path / "settings.xml"))

    command = ivy_command(tmp_path / "ivy.xml", tmp_path / "jars")
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)

    assert done.returncode == 0, done.stdout
    assert [path.name for path in (tmp_path / "jars").iterdir()] == ["only-here-1.0.jar"]


def test_what_a_version_lacks_comes_from_its_companion() -> None:
    broker, rest = fetch_broker("5.5.1"), fetch("5.5.1")
    assert rest == fetch("5.5.0")
    assert {path.name for path in rest.glob("rocketmq-namesrv-*.jar")} == {
        "rocketmq-namesrv-5.5.0.jar"
    }
    own = {path.name for path in broker.glob("rocketmq-*-5.5.1.jar")}
    assert {"rocketmq-broker-5.5.1.jar", "rocketmq-remoting-5.5.1.jar"} <= own
    assert not list(broker.glob("rocketmq-remoting-5.5.0.jar"))
    assert list(broker.glob("rocketmq-auth-5.5.0.jar"))
