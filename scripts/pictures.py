"""Take the pictures of the README from a server that is at work: python scripts/pictures.py ADDRESS

ADDRESS is what `make demo` prints, token included; let it run for ten minutes first. The font of a browser is that of
its machine, so they are taken with one that is named here.
"""

from __future__ import annotations

import json
import sys
import urllib.request
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, sync_playwright

from tests.ui.browsing import ARGUMENTS, found_chromium

PICTURES = Path(__file__).parent.parent / "docs" / "pictures"
SIZE = {"width": 1280, "height": 800}
FONT = ":root { --font: Inter, sans-serif; --mono: 'DejaVu Sans Mono', monospace; }"
READY_MS = 2500


def main(address: str) -> None:
    root, _, token = address.partition("/#token=")
    PICTURES.mkdir(exist_ok=True)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=found_chromium(), args=ARGUMENTS)
        for name, (place, theme) in _places(root, token).items():
            _take(browser, address, f"{root}/#{place}", theme, PICTURES / f"{name}.png")
            print(f"{name}: {(PICTURES / f'{name}.png').stat().st_size:,} bytes")
        browser.close()


def _places(root: str, token: str) -> dict[str, tuple[str, str]]:
    """Return the pages to show, one of each kind, alternately light and dark. A run with failures shows more."""

    def ask(path: str) -> Any:
        asked = urllib.request.Request(f"{root}/api/v1{path}", headers={"Authorization": f"Bearer {token}"})
        with urllib.request.urlopen(asked, timeout=10) as answer:
            return json.load(answer)["items"]

    failed = ask("/runs?state=failed&limit=1") or ask("/runs?limit=1")
    retried = next(job for job in ask("/jobs?task=import_catalogue&state=succeeded&limit=50") if job["attempt"] > 1)
    return {
        "overview": ("/", "light"),
        "jobs": ("/jobs?q=queue%3Apayments", "dark"),
        "run": (f"/runs/{failed[0]['id']}", "light"),
        "job": (f"/jobs/{retried['id']}", "dark"),
    }


def _take(browser: Browser, address: str, place: str, theme: Any, path: Path) -> None:
    context = browser.new_context(viewport=SIZE, color_scheme=theme, bypass_csp=True)  # for the font
    page = context.new_page()
    page.goto(address)
    page.wait_for_selector(".frame")
    page.add_style_tag(content=FONT)
    page.goto(place)
    page.wait_for_timeout(READY_MS)
    page.screenshot(path=path)
    context.close()


if __name__ == "__main__":
    main(sys.argv[1])
