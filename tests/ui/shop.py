"""Tasks for the workers of these tests: they succeed, fail, run long or never start, with hostile names.

Only workers import it, and the names from hostile.py: it stores its schedules where TICKWORK_URL says.
"""

import time
from typing import Any

from tests.ui.hostile import HOSTILE, MAIL
from tickwork import Tickwork, approve, concurrency, cron, current_job, every

app = Tickwork()


@app.task(queue="mail")
def send_email(to: str, subject: str = "Hello") -> str:
    print(f"\x1b[32msent\x1b[0m to {to} {HOSTILE}")
    return f"sent to {to}"


@app.task(name=MAIL, queue=f"queue {HOSTILE}", retries=0)
def hostile(text: str) -> dict[str, str]:
    """Print, report and return a hostile text."""
    print(f"\x1b[31m{text}\x1b[0m")
    current_job().progress(0.5, text)
    return {text: text}


@app.task(queue="payments", retries=0, limits=[concurrency(2, key="customer", name="cards")])
def charge(customer: str, cents: int) -> int:
    if cents % 2:
        raise ValueError(f"the card of {customer} was declined {HOSTILE}")
    return cents


@app.task(queue="payments", retries=5, backoff="1h")
def flaky(customer: str) -> None:
    raise ConnectionError(f"421 too many connections, {customer}")


@app.task(queue="imports", retries=0)
def import_file(name: str, rows: int = 5_000) -> int:
    """Goes on for as long as the tests do."""
    job = current_job()
    for row in range(rows):
        print(f"\x1b[36mrow {row}\x1b[0m of {name}")
        job.progress(row / rows, f"row {row}")
        time.sleep(0.2)
    return rows


@app.task(queue="held")
def wait_for_ever(text: Any) -> None: ...


@app.task(queue="reports")
def report(day: str = "today") -> str:
    """Sum up a day."""
    return day


@app.task
def extract(day: str) -> list[int]:
    return [1, 2, 3]


@app.task(retries=0)
def transform(part: int) -> int:
    return part * 10


@app.task(retries=0)
def load(parts: list[int], breaks: bool = False) -> int:
    if breaks:
        raise RuntimeError(f"the warehouse is down {HOSTILE}")
    return sum(parts)


@app.dag(description=f"Fetch, transform, load {HOSTILE}")
def etl(day: str = "today", breaks: bool = False) -> int:
    """Fetch, transform, load."""
    parts = transform.map(extract(day))
    return load(parts, breaks)


@app.dag(name=f"dag {HOSTILE}", description=HOSTILE)
def ask_first(text: str = HOSTILE) -> None:
    first = report.options(name=f"step {HOSTILE}")(text)
    asked = approve(f"Go on with {HOSTILE}?", timeout="2h")
    first >> asked >> report(text)


app.schedule("tick", report, every("2s"))
app.schedule("nightly", etl, cron("30 2 * * *", tz="Europe/Berlin"))
app.schedule(f"schedule {HOSTILE}", hostile, every("1h"), args=(HOSTILE,))
