"""The bill of materials: all that the locks pin, as CycloneDX has it."""

import json
import re

from packaging.utils import canonicalize_name

from docs.generate.sbom import ROOT, bill, made
from spark.session.packages import SHA256

BILL = json.loads(made())
PACKAGES = {each["name"]: each for each in BILL["components"] if "pypi" in each["purl"]}


def pinned(lock: str) -> dict[str, tuple[str, set[str]]]:
    """Package to version and checksums, by the words of a lock."""
    found: dict[str, tuple[str, set[str]]] = {}
    name = ""
    for word in (ROOT / "requirements" / lock).read_text().replace("\\", " ").split():
        if word.startswith("--hash=sha256:"):
            found[name][1].add(word.removeprefix("--hash=sha256:"))
        elif "==" in word:
            name, version = word.split("==")
            found[name] = (version, set())
    return found


def test_each_locked_package_is_listed_with_its_checksums():
    everything = pinned("lock.txt")
    assert PACKAGES.keys() == everything.keys() and len(PACKAGES) > 100
    for name, (version, checksums) in everything.items():
        package = PACKAGES[name]
        assert package["version"] == version
        (files,) = package["externalReferences"]
        assert {each["content"] for each in files["hashes"]} == checksums and checksums, name
    deployed = {name for name, each in PACKAGES.items() if each["scope"] == "required"}
    assert deployed == pinned("runtime.txt").keys()


def test_each_jar_of_spark_is_listed_with_its_checksum():
    jars = {
        f"{each['group']}:{each['name']}:{each['version']}": each["hashes"]
        for each in BILL["components"]
        if "maven" in each["purl"]
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
    references = [each["bom-ref"] for each in components]
    assert len(references) == len(set(references))
    for each in components:
        assert each.keys() <= {
            *("type", "bom-ref", "group", "name", "version", "purl", "scope", "hashes"),
            "externalReferences",
        }
        assert each["type"] in ("application", "library")
        assert each["purl"] == each["bom-ref"]
        if "pypi" in each["purl"]:
            assert each["purl"] == f"pkg:pypi/{canonicalize_name(each['name'])}@{each['version']}"
        assert each.get("scope", "required") in ("required", "excluded")
        hashes = [*each.get("hashes", ())]
        for reference in each.get("externalReferences", ()):
            assert reference["type"] == "distribution" and reference["url"] == each["purl"]
            hashes += reference.get("hashes", ())
        for found in hashes:
            assert found["alg"] == "SHA-256" and re.fullmatch("[0-9a-f]{64}", found["content"])


def test_the_same_locks_give_the_same_file_and_others_another():
    assert made() == made()
    lock = "one==1.0 \\\n    --hash=sha256:" + "a" * 64
    first, second = bill("1", lock, lock), bill("1", lock.replace("1.0", "1.1"), "")
    assert first["serialNumber"] != second["serialNumber"]
