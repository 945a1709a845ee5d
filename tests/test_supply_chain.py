"""Installed packages are those of the lock files, by hash, and the bill of materials names all of them."""

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from bench.peers.catalog import REQUIREMENTS as PEERS

ROOT = Path(__file__).parents[1]
LOCKS = [*sorted((ROOT / "requirements").glob("*.lock")), *sorted(PEERS.glob("*.lock"))]
NODE_LOCKS = sorted((ROOT / "requirements").glob("*/package-lock.json"))
# What makes environments here: what a contributor and CI run, and the scripts that they call.
RECIPES = [
    ROOT / "Makefile",
    *sorted((ROOT / ".ci").iterdir()),
    *sorted((ROOT / "scripts").glob("*.py")),
    *sorted((ROOT / "bench").rglob("*.py")),
    *sorted((ROOT / "sim").rglob("*.py")),
]
OURSELVES = "install --no-deps --no-build-isolation --editable ."


def installs(text: str) -> list[str]:
    """The commands in a text that install packages, by pip, npm and their like; also those that are lists of words."""
    joined = text.replace("\\\n", " ")
    words = [re.sub(r"""[\s"',\[\]]+""", " ", line).strip() for line in joined.splitlines()]
    words = [line for line in words if not line.startswith("#") and "##" not in line]
    by_pip = [line for line in words if re.search(r"\b(pip|PIP\)|uv pip|pip3?) install\b|\*pip install\b", line)]
    by_node = [line for line in words if re.search(r"\bnpm (install|i|ci|add|exec)\b|\b(npx|yarn|pnpm|uvx)\b", line)]
    return by_pip + by_node


def is_by_hash(command: str) -> bool:
    if OURSELVES in command or "--package-lock-only" in command:
        return True  # our own source; and what only writes a lock
    return "--require-hashes" in command if "npm" not in command else re.search(r"\bnpm ci\b", command) is not None


def test_everything_that_is_installed_is_installed_by_hash() -> None:
    found = [(path, command) for path in RECIPES for command in installs(path.read_text())]
    assert {path.name for path, _ in found} >= {"Makefile", "vendor.py", "environments.py"}, "they are recognised"
    for path, command in found:
        assert is_by_hash(command), f"{path.relative_to(ROOT)} installs without hashes: {command}"


@pytest.mark.parametrize(
    "command",
    [
        "@npm install --prefix x typescript@7.0.2",
        "npx tsc",
        "$(PIP) install -r requirements/dev.lock",
        "pip install \\\n  tickwork",
        '[*pip, "install", "--requirement", "x"]',
        "python -m pip install x",
        "uvx ruff",
    ],
)
def test_an_install_without_hashes_is_found(command: str) -> None:
    (found,) = installs(f"all:\n\t{command}\n")
    assert not is_by_hash(found)


def test_what_the_system_installs_is_named_in_the_policy() -> None:
    files = [path for part in ("tests", "bench", "scripts", "sim", ".ci") for path in (ROOT / part).rglob("*")]
    texts = {
        path: path.read_text()
        for path in [*files, ROOT / "Makefile"]
        if path.suffix in (".py", ".sh", "") and path.is_file() and path != Path(__file__)
    }
    found = {name for text in texts.values() for name in re.findall(r'"apt-get", "install", [^\]]*"([a-z-]+)"\]', text)}
    assert found == {"chromium", "redis-server"}
    policy = (ROOT / "SECURITY.md").read_text()
    assert "Chromium" in policy
    assert "Redis" in policy
    assert "only `make bench-peers` installs, in environments of its own" in policy


@pytest.mark.parametrize("lock", LOCKS, ids=lambda path: path.name)
def test_every_pin_of_a_lock_has_hashes(lock: Path) -> None:
    text = lock.read_text()
    entries = [one for one in re.split(r"\n(?=\S)", text) if not one.startswith("#")]
    assert entries
    for entry in entries:
        assert re.match(r"[A-Za-z0-9._-]+==\S+", entry), entry
        assert re.search(r"--hash=sha256:[0-9a-f]{64}", entry), entry
    assert "://" not in text, "a lock names no host"


@pytest.mark.parametrize("lock", NODE_LOCKS, ids=lambda path: path.parent.name)
def test_every_package_of_npm_has_a_hash_and_an_exact_version(lock: Path) -> None:
    wanted = json.loads((lock.parent / "package.json").read_text())
    for versions in (wanted.get("dependencies", {}), wanted.get("devDependencies", {})):
        assert all(re.fullmatch(r"\d+\.\d+\.\d+", version) for version in versions.values())
    text = lock.read_text()
    packages = {path: told for path, told in json.loads(text)["packages"].items() if path}
    assert packages
    assert all(told["integrity"].startswith("sha512-") for told in packages.values())
    assert "://" not in re.sub(r'"(url|funding|license)": "[^"]*"', "", text), "a lock names no host"


def test_the_locks_of_peers_are_made_from_their_lists() -> None:
    lists = sorted(PEERS.glob("*.txt"))
    assert [path.stem for path in lists] == sorted(path.stem for path in PEERS.glob("*.lock"))
    for path in lists:
        locked = re.findall(r"^([^\s#=]+==[^\s;\\]+)", path.with_suffix(".lock").read_text(), re.MULTILINE)
        assert sorted(map(plain, locked)) == sorted(map(plain, path.read_text().split())), path.name


def test_what_is_bundled_into_the_ui_is_what_its_lock_names() -> None:
    record = json.loads((ROOT / "src/tickwork/ui/vendor/vendor.json").read_text())
    packages = json.loads((ROOT / "requirements/vendor/package-lock.json").read_text())["packages"]
    for made in record.values():
        for package in made["from"]:
            assert packages[f"node_modules/{package['name']}"]["version"] == package["version"]


@pytest.fixture(scope="module")
def bill() -> dict[str, Any]:
    def made() -> bytes:
        return subprocess.run(
            [sys.executable, "-I", ROOT / "scripts/sbom.py"], capture_output=True, check=True, timeout=60
        ).stdout

    first = made()
    assert first == made(), "the same tree gives the same bytes"
    found: dict[str, Any] = json.loads(first)
    return found


def test_the_bill_of_materials_names_every_locked_package_with_its_hashes(bill: dict[str, Any]) -> None:
    named = {one["purl"]: {hash["content"] for hash in one["hashes"]} for one in bill["components"]}
    for lock in sorted((ROOT / "requirements").glob("*.lock")):
        for entry in re.split(r"\n(?=\S)", lock.read_text()):
            if pin := re.match(r"([A-Za-z0-9._-]+)==([^\s;\\]+)", entry):
                purl = f"pkg:pypi/{plain(pin[1])}@{pin[2]}"
                assert named.pop(purl, None) or purl in [one["purl"] for one in bill["components"]], purl
                (component,) = [one for one in bill["components"] if one["purl"] == purl]
                hashes = {hash["content"] for hash in component["hashes"]}
                assert hashes == set(re.findall(r"sha256:([0-9a-f]{64})", entry)), purl
    for node_lock in NODE_LOCKS:
        for path, told in json.loads(node_lock.read_text())["packages"].items():
            if path:
                name = path.rpartition("node_modules/")[2].replace("@", "%40")
                digests = named.pop(f"pkg:npm/{name}@{told['version']}")
                assert [len(digest) for digest in digests] == [128]
    assert named == {}, "and nothing else"


def test_the_bill_of_materials_is_cyclonedx_and_tells_what_is_shipped(bill: dict[str, Any]) -> None:
    assert (bill["bomFormat"], bill["specVersion"], bill["version"]) == ("CycloneDX", "1.6", 1)
    assert re.fullmatch(r"urn:uuid:[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", bill["serialNumber"])
    components = {one["purl"]: one for one in bill["components"]}
    assert len(components) == len(bill["components"]), "each is named once"
    assert {one["type"] for one in components.values()} == {"library"}
    assert {hash["alg"] for one in components.values() for hash in one["hashes"]} == {"SHA-256", "SHA-512"}
    shipped = {one["name"] for one in components.values() if one["scope"] == "required"}
    assert shipped >= {"msgspec", "cryptography", "starlette", "preact", "@preact/signals-core"}
    assert not shipped & {"pytest", "ruff", "esbuild", "typescript", "hatchling"}
    (own,) = bill["dependencies"]
    assert own["ref"] == bill["metadata"]["component"]["bom-ref"]
    assert {components[purl]["name"] for purl in own["dependsOn"]} == shipped


def plain(pin: str) -> str:
    name, equals, version = pin.partition("==")
    return re.sub(r"[-_.]+", "-", name).lower() + equals + version
