"""The jars of Spark, fetched into a folder: for an image, or for a machine without a network."""

import subprocess
import tempfile
from pathlib import Path

from spark.session.packages import SHA256, damaged
from tidemark.cli.errors import CommandError
from tidemark.lab.jars import ivy_command

_SECONDS = 900


def fetch(folder: Path) -> list[str]:
    """Fetch every pinned jar into a folder, and return their packages.

    Jars that lie there already, whole, are not fetched again.

    Raises:
        CommandError: they cannot be fetched, or one of them is not the pinned one.
    """
    folder.mkdir(parents=True, exist_ok=True)
    wanting = damaged(folder)
    for jar in wanting:
        # Ivy leaves a newer file as it is.
        jar.unlink(missing_ok=True)
    if wanting:
        _download(folder)
    if mistakes := damaged(folder):
        raise CommandError("; ".join(mistakes.values()))
    return list(SHA256)


def _download(folder: Path) -> None:
    with tempfile.TemporaryDirectory() as name:
        wanted = Path(name) / "ivy.xml"
        wanted.write_text(_wanted())
        try:
            done = subprocess.run(
                ivy_command(wanted, folder), capture_output=True, text=True, timeout=_SECONDS
            )
        except subprocess.TimeoutExpired:
            raise CommandError(f"the jars did not arrive within {_SECONDS} s") from None
    if done.returncode:
        signs = ("UnknownHost", "UNRESOLVED", "FAILED", "Exception")
        lines = [line.strip() for line in (done.stdout + done.stderr).splitlines()]
        why = next(
            (line for line in lines if any(sign in line for sign in signs)), "no reason given"
        )
        raise CommandError(
            f"the jars cannot be fetched from Maven Central ({why[:160]}): check the network, or "
            "name a mirror with TIDEMARK_IVY_SETTINGS"
        )


def _wanted() -> str:
    dependencies = "".join(
        f'<dependency org="{group}" name="{artifact}" rev="{version}" transitive="false"/>'
        for group, artifact, version in (package.split(":") for package in SHA256)
    )
    return (
        '<ivy-module version="2.0"><info organisation="tidemark" module="spark"/>'
        '<configurations><conf name="default"/></configurations>'
        f"<dependencies>{dependencies}</dependencies></ivy-module>"
    )
