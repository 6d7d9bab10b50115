"""Jars of servers that tests start, fetched once from Maven Central and cached for this user."""

import shutil
import subprocess
import tempfile
from pathlib import Path

from filelock import FileLock

from tidemark.lab.jars import cache_folder, ivy_command

_MODULE = """\
<ivy-module version="2.0" xmlns:m="http://ant.apache.org/ivy/maven">
<info organisation="tidemark" module="tests"/>
<configurations><conf name="default"/></configurations>
<dependencies>{dependencies}</dependencies></ivy-module>
"""


def jars(name: str, *packages: str, transitive: bool = False) -> Path:
    """Return the folder with the jars of packages.

    Args:
        name: of the folder; it names the versions.
        packages: ``GROUP:ARTIFACT:VERSION``, with ``:CLASSIFIER,CLASSIFIER`` for these jars of it;
            an empty one is the main jar.
        transitive: whether also with what the packages need.
    """
    folder = cache_folder() / "jars" / name
    folder.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(cache_folder() / "ivy.lock"):
        if not any(folder.glob("*.jar")):
            _fetch(folder, "".join(_dependency(package, transitive) for package in packages))
    return folder


def _fetch(folder: Path, dependencies: str) -> None:
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=f".{folder.name}-") as partial:
        wanted, path = Path(partial) / "ivy.xml", Path(partial) / "jars"
        wanted.write_text(_MODULE.format(dependencies=dependencies))
        done = subprocess.run(ivy_command(wanted, path), capture_output=True, text=True)
        assert done.returncode == 0, done.stdout[-3000:]
        shutil.rmtree(folder, ignore_errors=True)
        shutil.move(path, folder)


def _dependency(package: str, transitive: bool) -> str:
    group, artifact, version, *classifiers = package.split(":")
    named = f'<dependency org="{group}" name="{artifact}" rev="{version}"'
    if not classifiers:
        return f'{named} transitive="{str(transitive).lower()}" conf="default-&gt;default"/>'
    artifacts = "".join(
        f'<artifact name="{artifact}" type="jar" ext="jar" m:classifier="{part}"/>'
        if part
        else f'<artifact name="{artifact}" type="jar" ext="jar"/>'
        for part in classifiers[0].split(",")
    )
    conf = 'conf="default-&gt;default"' if transitive else 'transitive="false"'
    return f"{named} {conf}>{artifacts}</dependency>"
