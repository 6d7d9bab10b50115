"""The bill of materials of a release, as CycloneDX: the locked packages, with checksums.

It has no date, no random number and no address of a registry: the same locks give the same file.
Packages of Python that only development and tests need have the scope ``excluded``; no image has
them.
"""

import json
import re
import sys
import tomllib
import uuid
from pathlib import Path
from typing import Any

from spark.session.packages import DRIVERS, ICEBERG, SHA256

ROOT = Path(__file__).parent.parent.parent
FILE = ROOT / "tidemark.cdx.json"
NAMESPACE = uuid.UUID("6ba7b811-9dad-11d1-80b4-00c04fd430c8")
"""That of addresses (RFC 9562), in which the serial number is made from the content."""


def locked(text: str) -> dict[tuple[str, str], list[str]]:
    """Return the checksums by name and version of each package that a lock pins.

    Args:
        text: of a file of requirements with hashes.
    """
    texts: dict[tuple[str, str], list[str]] = {}
    for name, version, rest in re.findall(r"(?m)^([\w.-]+)==([^\s\\]+)((?:.*\\\n)*.*)$", text):
        texts[name, version] = re.findall(r"--hash=sha256:([0-9a-f]{64})", rest)
    return texts


def bill(version: str, everything: str, runtime: str) -> dict[str, Any]:
    """Return the bill of materials.

    Args:
        version: of Tidemark.
        everything: text of the lock of development, which has all packages.
        runtime: text of the lock of the image.
    """
    deployed = locked(runtime)
    components = [
        _package(*package, hashes, package in deployed)
        for package, hashes in sorted(locked(everything).items())
    ]
    components += [_jar(package) for package in (ICEBERG, *DRIVERS.values())]
    values = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {
            "component": {
                "type": "application",
                "bom-ref": f"pkg:pypi/tidemark@{version}",
                "name": "tidemark",
                "version": version,
                "purl": f"pkg:pypi/tidemark@{version}",
            }
        },
        "components": components,
    }
    content = json.dumps(values, sort_keys=True)
    return values | {"serialNumber": f"urn:uuid:{uuid.uuid5(NAMESPACE, content)}"}


def _package(name: str, version: str, hashes: list[str], is_deployed: bool) -> dict[str, Any]:
    purl = f"pkg:pypi/{name}@{version}"
    return {
        "type": "library",
        "bom-ref": purl,
        "name": name,
        "version": version,
        "purl": purl,
        "scope": "required" if is_deployed else "excluded",
        # An installation may take several files: a wheel, or the source.
        "externalReferences": [
            {
                "type": "distribution",
                "url": purl,
                "hashes": [{"alg": "SHA-256", "content": text} for text in hashes],
            }
        ],
    }


def _jar(package: str) -> dict[str, Any]:
    group, artifact, version = package.split(":")
    purl = f"pkg:maven/{group}/{artifact}@{version}"
    return {
        "type": "library",
        "bom-ref": purl,
        "group": group,
        "name": artifact,
        "version": version,
        "purl": purl,
        "scope": "required",
        "hashes": [{"alg": "SHA-256", "content": SHA256[package]}],
    }


def made() -> str:
    """Return the bill of this checkout, as its file holds it."""
    locks = ROOT / "requirements"
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    row = bill(version, (locks / "lock.txt").read_text(), (locks / "runtime.txt").read_text())
    return json.dumps(row, indent=2) + "\n"


if __name__ == "__main__":
    place = Path(sys.argv[1]) if sys.argv[1:] else FILE
    place.write_text(made())
