"""The bill of materials: all that the locks pin, as CycloneDX has it."""

import json
import re

from packaging.utils import canonicalize_name

from docs.generate.sbom import ROOT, bill, made
from spark.session.packages import SHA256

BILL = json.loads(made())
PACKAGES = {
    component["name"]: component for component in BILL["components"] if "pypi" in component["purl"]
}


def pinned(lock: str) -> dict[str, tuple[str, set[str]]]:
    """Package to version and checksums, by the words of a lock."""
    pairs: dict[str, tuple[str, set[str]]] = {}
    name = ""
    for word in (ROOT / "requirements" / lock).read_text().replace("\\", " ").split():
        if word.startswith("--hash=sha256:"):
            pairs[name][1].add(word.removeprefix("--hash=sha256:"))
        elif "==" in word:
            name, version = word.split("==")
            pairs[name] = (version, set())
    return pairs


def test_each_locked_package_is_listed_with_its_checksums():
    everything = pinned("lock.txt")
    assert PACKAGES.keys() == everything.keys() and len(PACKAGES) > 100
    for name, (version, checksums) in everything.items():
        package = PACKAGES[name]
        assert package["version"] == version
        (files,) = package["externalReferences"]
        assert {item["content"] for item in files["hashes"]} == checksums and checksums, name
    deployed = {name for name, value in PACKAGES.items() if value["scope"] == "required"}
    assert deployed == pinned("runtime.txt").keys()


def test_each_jar_of_spark_is_listed_with_its_checksum():
    jars = {
        f"{component['group']}:{component['name']}:{component['version']}": component["hashes"]
        for component in BILL["components"]
        if "maven" in component["purl"]
    }
    assert jars == {
        package: [{"alg": "SHA-256", "content": checksum}] for package, checksum in SHA256.items()
    }


def test_it_is_what_cyclonedx_requires():
    """As the schema of 1.6 has it, which was checked by CycloneDX's own validator once."""
    assert (BILL["bomFormat"], BILL["specVersion"], BILL["version"]) == ("CycloneDX", "1.6", 1)
    hexadecimal = r"[0-9a-f]{8}-[0-9a-f]{4}-5[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}"
    assert re.fullmatch(rf"urn:uuid:{hexadecimal}", BILL["serialNumber"])
    assert BILL.keys() == {
        *("bomFormat", "specVersion", "version", "serialNumber", "metadata", "components")
    }
    components = [BILL["metadata"]["component"], *BILL["components"]]
    references = [component["bom-ref"] for component in components]
    assert len(references) == len(set(references))
    for component in components:
        assert component.keys() <= {
            *("type", "bom-ref", "group", "name", "version", "purl", "scope", "hashes"),
            "externalReferences",
        }
        assert component["type"] in ("application", "library")
        assert component["purl"] == component["bom-ref"]
        if "pypi" in component["purl"]:
            assert (
                component["purl"]
                == f"pkg:pypi/{canonicalize_name(component['name'])}@{component['version']}"
            )
        assert component.get("scope", "required") in ("required", "excluded")
        hashes = [*component.get("hashes", ())]
        for reference in component.get("externalReferences", ()):
            assert reference["type"] == "distribution" and reference["url"] == component["purl"]
            hashes += reference.get("hashes", ())
        for item in hashes:
            assert item["alg"] == "SHA-256" and re.fullmatch("[0-9a-f]{64}", item["content"])


def test_the_same_locks_give_the_same_file_and_others_another():
    assert made() == made()
    lock = "one==1.0 \\\n    --hash=sha256:" + "a" * 64
    first, second = bill("1", lock, lock), bill("1", lock.replace("1.0", "1.1"), "")
    assert first["serialNumber"] != second["serialNumber"]
