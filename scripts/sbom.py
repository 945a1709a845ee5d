"""Write the bill of materials of Tickwork, in CycloneDX 1.6: every locked package, with the hashes of its files.

    python scripts/sbom.py > tickwork.cdx.json

It is made from the lock files, which are also what is installed from, and from nothing else: no network, no environment
and no library. The same tree gives the same bytes.
"""

from __future__ import annotations

import base64
import json
import re
import sys
import tomllib
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).parent.parent
LOCKS = ROOT / "requirements"
PYTHON_LOCKS = ("runtime", "build", "dev")  # the first one that names a package says what it is for
NODE_LOCKS = ("vendor", "check-ui")
_PIN = re.compile(r"^(?P<name>[A-Za-z0-9][A-Za-z0-9._-]*)==(?P<version>[^\s;\\]+)")
_HASH = re.compile(r"--hash=sha256:([0-9a-f]{64})")


class Package(NamedTuple):
    """A locked package. `hashes` are of all files of this version, by the names that CycloneDX has for the methods."""

    purl: str
    name: str
    version: str
    lock: str
    hashes: tuple[tuple[str, str], ...]
    is_shipped: bool


def python_packages(lock: str, text: str) -> Iterator[Package]:
    """The packages of a file of requirements with hashes. Raises ValueError for a pin without any."""
    for entry in re.split(r"\n(?=[A-Za-z0-9])", text):
        if (pin := _PIN.match(entry)) is None:
            continue
        name = re.sub(r"[-_.]+", "-", pin["name"]).lower()
        hashes = tuple(("SHA-256", digest) for digest in sorted(_HASH.findall(entry)))
        if not hashes:
            raise ValueError(f"{lock}.lock names {name} without a hash: make lock")
        purl = f"pkg:pypi/{name}@{pin['version']}"
        yield Package(purl, name, pin["version"], f"requirements/{lock}.lock", hashes, lock == "runtime")


def node_packages(lock: str, text: str) -> Iterator[Package]:
    """The packages of a lock of npm's. Raises ValueError for one without a hash.

    What is not for development is bundled into the web UI, and so it is shipped.
    """
    for path, told in json.loads(text)["packages"].items():
        if not path:
            continue  # the list of what is wanted, which is ours
        name, version = path.rpartition("node_modules/")[2], told["version"]
        if "integrity" not in told:
            raise ValueError(f"{lock}/package-lock.json names {name} without a hash: make lock-npm")
        method, _, digest = told["integrity"].partition("-")
        hashes = ((f"SHA-{method.removeprefix('sha')}", base64.b64decode(digest).hex()),)
        purl = f"pkg:npm/{name.replace('@', '%40')}@{version}"
        where = f"requirements/{lock}/package-lock.json"
        yield Package(purl, name, version, where, hashes, not told.get("dev", False))


def packages() -> list[Package]:
    """Every locked package once, by what identifies it."""
    found: dict[str, Package] = {}
    for lock in PYTHON_LOCKS:
        for package in python_packages(lock, (LOCKS / f"{lock}.lock").read_text()):
            found.setdefault(package.purl, package)
    for lock in NODE_LOCKS:
        for package in node_packages(lock, (LOCKS / lock / "package-lock.json").read_text()):
            found.setdefault(package.purl, package)
    return [found[purl] for purl in sorted(found)]


def bill() -> dict[str, Any]:
    """The bill of materials."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    own = f"pkg:pypi/{project['name']}@{project['version']}"
    components = [_component(package) for package in packages()]
    shipped = [package.purl for package in packages() if package.is_shipped]
    made: dict[str, Any] = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {
            "component": {
                "type": "application",
                "bom-ref": own,
                "name": project["name"],
                "version": project["version"],
                "purl": own,
                "licenses": [{"license": {"id": project["license"]}}],
            },
        },
        "components": components,
        "dependencies": [{"ref": own, "dependsOn": shipped}],
    }
    serial = uuid.uuid5(uuid.NAMESPACE_URL, json.dumps(made, sort_keys=True))
    return {"$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json", "serialNumber": f"urn:uuid:{serial}", **made}


def _component(package: Package) -> dict[str, Any]:
    return {
        "type": "library",
        "bom-ref": package.purl,
        "name": package.name,
        "version": package.version,
        "purl": package.purl,
        "scope": "required" if package.is_shipped else "excluded",
        "hashes": [{"alg": method, "content": digest} for method, digest in package.hashes],
        "properties": [{"name": "tickwork:lock", "value": package.lock}],
    }


if __name__ == "__main__":
    json.dump(bill(), sys.stdout, indent=2)
    sys.stdout.write("\n")
