"""Measure the load time of every page of the web UI in a real browser, on a store with more than a million jobs.

A page is ready when it shows its heading and no loading indicator, and no request is pending.
"""

from __future__ import annotations

import json
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from playwright.sync_api import Page, Request, sync_playwright

from bench.long.base import Crowd, Result, Sizes, Tell
from bench.long.crowd import crowd
from bench.places import Place
from bench.rows.http import TOKEN, server_of
from bench.stats import percentile
from bench.worker import BenchFailed
from tests.ui.browsing import ARGUMENTS, found_chromium

READY_S = 1.0
LIMIT_S = 30.0
REPEATS = 3
STEPS = 1_000
_LOOK_S = 0.01
_QUIET_S = 0.05  # a page may send another request for this long after the last response
_PLACES = {
    "overview": "/",
    "jobs": "/jobs",
    "failed": "/jobs?q=state%3Afailed",
    "rare": "/jobs?q=task%3Anobodys",
    "words": "/jobs?q=broke",
    "dags": "/dags",
    "schedules": "/schedules",
    "queues": "/queues",
    "workers": "/workers",
    "dead": "/dead",
    "hooks": "/hooks",
    "settings": "/settings",
}


def pages(place: Place, sizes: Sizes, tell: Tell) -> Result:
    """Open each page a few times by its URL, with the files of the UI in the browser's cache."""
    size = Crowd(sizes.large.queued // 2, sizes.large.queued, sizes.large.delayed // 10, 100, sizes.large.keys // 10)
    with place.fresh() as database:
        crowd(database, size, tell)
        with server_of(database) as (port, _), _browser() as page:
            api = _Api(port)
            places = {**_PLACES, "job": f"/jobs/{api.ask('/jobs?limit=1')['items'][0]['id']}", "run": api.large_run()}
            page.goto(f"http://127.0.0.1:{port}/#token={TOKEN}")
            page.wait_for_selector(".frame")
            figures = {f"{name}_ready_ms": _ready_ms(page, port, at, tell) for name, at in places.items()}
    return Result(figures, promises={f"{name} < {READY_S:g} s": ms < READY_S * 1e3 for name, ms in figures.items()})


class _Api:
    """A client of the server's API, which finds data for the pages to show."""

    def __init__(self, port: int) -> None:
        self._root = f"http://127.0.0.1:{port}/api/v1"

    def ask(self, path: str, body: Any = None) -> Any:
        data = None if body is None else json.dumps(body).encode()
        headers = {"Authorization": f"Bearer {TOKEN}", "Content-Type": "application/json"}
        with urllib.request.urlopen(
            urllib.request.Request(self._root + path, data, headers), timeout=LIMIT_S
        ) as answer:
            return json.load(answer)

    def large_run(self) -> str:
        """Return the URL of a run with a thousand steps, in layers that each wait for the previous one."""
        steps = {f"s{n}": {"task": "noop", **({"needs": [f"s{n - 20}"]} if n >= 20 else {})} for n in range(STEPS)}
        self.ask("/dags", {"text": json.dumps({"dags": {"large": {"steps": steps}}}), "format": "json"})
        return f"/runs/{self.ask('/dags/large/runs', {})['id']}"


@contextmanager
def _browser() -> Iterator[Page]:
    path = found_chromium()
    if path is None:
        raise BenchFailed("there is no Chromium here; install it, or name it in TICKWORK_CHROMIUM")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=ARGUMENTS)
        yield browser.new_page(viewport={"width": 1440, "height": 900})
        browser.close()


def _ready_ms(page: Page, port: int, at: str, tell: Tell) -> float:
    tell(at)
    return percentile([_once(page, port, at) for _ in range(REPEATS)], 50)


def _once(page: Page, port: int, at: str) -> float:
    page.goto("about:blank")
    open_requests: set[Request] = set()
    last = [0.0]

    def ended(request: Request) -> None:
        open_requests.discard(request)
        last[0] = time.perf_counter()

    def asked(request: Request) -> None:
        if not request.url.split("?")[0].endswith("/stream"):
            open_requests.add(request)

    page.on("request", asked)
    page.on("requestfinished", ended)
    page.on("requestfailed", ended)
    began = time.perf_counter()
    try:
        page.goto(f"http://127.0.0.1:{port}/#{at}", wait_until="commit")
        while time.perf_counter() < began + LIMIT_S:
            shown = page.evaluate("!document.querySelector('.loading') && Boolean(document.querySelector('.page h1'))")
            now = time.perf_counter()
            if shown and not open_requests and now - last[0] > _QUIET_S:
                return (max(last[0], now - _QUIET_S) - began) * 1e3
            page.wait_for_timeout(_LOOK_S * 1e3)
        raise BenchFailed(f"the page {at} was not ready after {LIMIT_S:g} s")
    finally:
        for event, listener in (("request", asked), ("requestfinished", ended), ("requestfailed", ended)):
            page.remove_listener(event, listener)
