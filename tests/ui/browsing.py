"""A real browser, and pages that remember everything that went wrong in them."""

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Dialog, Page, Response

ARGUMENTS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
NAMES = ("chromium", "chromium-browser", "google-chrome")
INSTALL_S = 300
SIZE = {"width": 1440, "height": 900}
_VIOLATIONS = """
addEventListener("securitypolicyviolation", (event) =>
  console.error("policy:", event.violatedDirective, event.blockedURI));
"""


def chromium() -> str:
    """Return the path of the browser, and install it if possible. Without it tests are skipped, or fail under CI."""
    found = found_chromium() or _installed()
    if found:
        return found
    said = "there is no Chromium: none of the tests of the web UI ran. Install it, or name it with TICKWORK_CHROMIUM."
    return pytest.fail(said) if os.environ.get("CI") == "true" else pytest.skip(said)


def found_chromium() -> str | None:
    """The browser that is here, if any."""
    return os.environ.get("TICKWORK_CHROMIUM") or next((path for name in NAMES if (path := shutil.which(name))), None)


def _installed() -> str | None:
    if os.geteuid() != 0 or shutil.which("apt-get") is None:
        return None
    install = ["apt-get", "install", "--yes", "--no-install-recommends", "chromium"]
    for command in (install, ["apt-get", "update"], install):
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, timeout=INSTALL_S, check=False)
        if command is install and done.returncode == 0:
            return found_chromium()
    return None


class Watched:
    """Problems in the pages of a context: console errors, refused requests, dialogs, other hosts.

    `may_answer(status, path)` says beforehand that a page will be refused something.
    """

    def __init__(self, context: BrowserContext, address: str) -> None:
        self.wrong: list[str] = []
        self.requests: list[Response] = []
        self._host = urlsplit(address).netloc
        self._allowed: list[tuple[int, re.Pattern[str]]] = []
        context.add_init_script(_VIOLATIONS)
        context.on("console", self._console)
        context.on("weberror", lambda error: self.wrong.append(f"error: {error.error}"))
        context.on("dialog", self._dialog)
        context.on("request", lambda request: self._request(request.url))
        context.on("response", self._response)

    def may_answer(self, status: int, path: str) -> None:
        self._allowed.append((status, re.compile(path)))

    def check(self) -> None:
        """Fail with what went wrong since the last time."""
        wrong, self.wrong = self.wrong, []
        assert not wrong, "\n".join(wrong)

    def _console(self, message: ConsoleMessage) -> None:
        # What could not be loaded is told by _response, with its address.
        if message.type in ("error", "warning") and not message.text.startswith("Failed to load resource"):
            self.wrong.append(f"console: {message.text}")

    def _dialog(self, dialog: Dialog) -> None:
        self.wrong.append(f"dialog: {dialog.message}")
        dialog.dismiss()

    def _request(self, url: str) -> None:
        if urlsplit(url).scheme not in ("data", "blob") and urlsplit(url).netloc != self._host:
            self.wrong.append(f"another host: {url}")

    def _response(self, response: Response) -> None:
        self.requests.append(response)
        path = urlsplit(response.url).path
        is_allowed = any(response.status == status and pattern.search(path) for status, pattern in self._allowed)
        if response.status >= 400 and not is_allowed:
            self.wrong.append(f"{response.status}: {response.request.method} {response.url}")


@contextmanager
def watched_page(browser: Browser, address: str, **options: Any) -> Iterator[Page]:
    """A page in a context of its own. Fails at the end if anything went wrong in it that the test did not announce."""
    context = browser.new_context(**{"viewport": SIZE, **options})
    context.set_default_timeout(10_000)
    watched = Watched(context, address)
    page = context.new_page()
    page.watched = watched  # type: ignore[attr-defined]
    try:
        yield page
        watched.check()
    finally:
        context.close()
