"""Every page of the UI, by the table of its routes, with a true example of each."""

import re
from collections.abc import Callable
from pathlib import Path
from urllib.parse import quote

from tests.ui.hostile import HOSTILE
from tests.ui.serving import Served

UI = Path(__file__).parents[2] / "src" / "tickwork" / "ui"
PARTS = ("you", "keys", "users", "notifications", "secrets", "audit", "configuration", "health", "about")
TABS = ("/queues?tab=limits", "/queues?tab=gates", "/queues?tab=tenants", "/dead?by=queue", "/dead?tab=operations")
_PATTERN = re.compile(r'\bpath: "(/[^"]*)"')


def patterns() -> list[str]:
    """The patterns of routes.js, each part of the settings, and tabs of other pages."""
    found = _PATTERN.findall((UI / "routes.js").read_text())
    return [*found, *(f"/settings?part={part}" for part in PARTS), *TABS]


def example(served: Served, pattern: str) -> str:
    """A place that a pattern matches, with hostile names where there are some. A new pattern is given one here."""
    path, _, name = pattern.partition("/:")
    return f"{path}/{quote(EXAMPLES[path](served), safe='')}" if name else pattern


def _failed_job(served: Served) -> str:
    jobs = served.get("/jobs", state="failed", task="charge", limit=50)["items"]
    return str(next(job["id"] for job in jobs if HOSTILE in job["error"]))


def _run(served: Served) -> str:
    return str(served.get("/runs", limit=1)["items"][0]["id"])


EXAMPLES: dict[str, Callable[[Served], str]] = {
    "/jobs": _failed_job,
    "/dags": lambda served: f"dag {HOSTILE}",
    "/runs": _run,
    "/schedules": lambda served: f"schedule {HOSTILE}",
    "/workers": lambda served: str(served.get("/workers")["items"][0]["id"]),
    "/hooks": lambda served: "paid",
}
