"""Make what the web UI takes from others: src/tickwork/ui/vendor/, and the record of it, vendor.json.

    python scripts/vendor.py           make the files again (needs npm)
    python scripts/vendor.py --check   make them in a temporary folder and compare; exit 1 where they differ

Exit 2: they could not be fetched.

The UI has no build step, for users and for us: what is served is what stands in the repository. Only what others wrote
is bundled, once, from the versions of requirements/vendor, whose lock has their hashes (make lock-npm). Icons are in
icons.txt.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

VENDOR = Path(__file__).parent.parent / "src" / "tickwork" / "ui" / "vendor"
PACKAGES = Path(__file__).parent.parent / "requirements" / "vendor"
CORE = """
export { h, render, Fragment, createContext } from "preact";
export { useState, useEffect, useLayoutEffect, useMemo, useRef, useCallback, useContext, useId } from "preact/hooks";
export { signal, computed, effect, batch, untracked, useSignal, useComputed, useSignalEffect } from "@preact/signals";
import { h } from "preact";
import htm from "htm";
export const html = htm.bind(h);
"""
HIGHLIGHT = """
import hljs from "highlight.js/lib/core";
import json from "highlight.js/lib/languages/json";
import python from "highlight.js/lib/languages/python";
import yaml from "highlight.js/lib/languages/yaml";
import bash from "highlight.js/lib/languages/bash";
for (const [name, language] of Object.entries({ json, python, yaml, bash })) hljs.registerLanguage(name, language);
// The tree of tokens, not the HTML that it could be turned into: pages make text nodes of it.
export const tokens = (text, language) => hljs.highlight(text, { language, ignoreIllegals: true })._emitter.rootNode;
"""
BUNDLES = {"core.js": (CORE, ("preact", "@preact/signals", "htm")), "highlight.js": (HIGHLIGHT, ("highlight.js",))}
ICONS = (Path(__file__).parent / "icons.txt").read_text().split()


def main() -> int:
    parser = argparse.ArgumentParser(description="Make what the web UI takes from others.")
    parser.add_argument("--check", action="store_true", help="only compare with what is there")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as work:
        if not _fetched(Path(work)):
            print("npm is missing here, or cannot fetch what is wanted.")
            return 2
        made = _made(Path(work))
    if asked.check:
        differing = [name for name, data in made.items() if _read(VENDOR / name) != data]
        for name in differing:
            print(f"{name} is not what its sources make; run: python scripts/vendor.py")
        return 1 if differing else 0
    VENDOR.mkdir(parents=True, exist_ok=True)
    for name, data in made.items():
        (VENDOR / name).write_bytes(data)
        print(f"{name}: {len(data):,} bytes")
    return 0


def _fetched(work: Path) -> bool:
    npm = shutil.which("npm")
    if npm is None:
        return False
    for name in ("package.json", "package-lock.json"):
        shutil.copy(PACKAGES / name, work)
    command = [npm, "ci", "--no-audit", "--no-fund", "--silent"]
    return subprocess.run(command, cwd=work, check=False).returncode == 0


def _made(work: Path) -> dict[str, bytes]:
    """The files by name, and the record of them."""
    files = {name: _bundle(work, source) for name, (source, _) in BUNDLES.items()} | {"icons.svg": _sprite(work)}
    sources = {name: names for name, (_, names) in BUNDLES.items()} | {"icons.svg": ("lucide-static",)}
    record = {
        name: {
            "sha256": hashlib.sha256(data).hexdigest(),
            "from": [_about(work, package) for package in sources[name]],
        }
        for name, data in files.items()
    }
    return {**files, "vendor.json": (json.dumps(record, indent=2) + "\n").encode()}


def _bundle(work: Path, source: str) -> bytes:
    entry = work / "entry.js"
    entry.write_text(source)
    out = work / "out.js"
    flags = ("--bundle", "--format=esm", "--minify", "--target=es2022", "--legal-comments=none")
    _run(work, str(work / "node_modules" / ".bin" / "esbuild"), str(entry), *flags, f"--outfile={out}")
    return out.read_bytes()


def _sprite(work: Path) -> bytes:
    """One file with a symbol for each icon, drawn in the colour of the text around it."""
    symbols = "".join(_symbol(work, name) for name in sorted(ICONS))
    return f'<svg xmlns="http://www.w3.org/2000/svg">\n{symbols}</svg>\n'.encode()


def _symbol(work: Path, name: str) -> str:
    text = (work / "node_modules" / "lucide-static" / "icons" / f"{name}.svg").read_text()
    drawn = " ".join(text.split("<svg", 1)[1].split(">", 1)[1].rsplit("</svg>", 1)[0].split())
    return f'<symbol id="{name}" viewBox="0 0 24 24">{drawn}</symbol>\n'


def _about(work: Path, package: str) -> dict[str, Any]:
    told = json.loads((work / "node_modules" / package / "package.json").read_text())
    return {"name": package, "version": told["version"], "license": told["license"]}


def _read(path: Path) -> bytes | None:
    return path.read_bytes() if path.exists() else None


def _run(work: Path, *command: str) -> None:
    subprocess.run(command, cwd=work, check=True)


if __name__ == "__main__":
    sys.exit(main())
