"""The tasks of `tickwork demo`: a small shop, as a user would write it.

Orders that are not paid in time expire, and paying cancels that. Mail servers hang up now and then, pictures take a
processor's time, a long import goes on where it broke off, and some cards can never be charged.
"""

from __future__ import annotations

import asyncio
import time
from random import Random

from tickwork.app import Tickwork
from tickwork.context import current_job
from tickwork.errors import Fatal

app = Tickwork()  # the store that TICKWORK_URL names: the demo's own file
TIME_TO_PAY = "10s"


@app.task
def place_order(order: int) -> None:
    """Reserve it for a while, and confirm it by mail."""
    expire_order.options(delay=TIME_TO_PAY, key=f"expire:{order}").enqueue(order)
    send_mail.enqueue(f"customer-{order}@example.org", "We have your order")


@app.task
def expire_order(order: int) -> str:
    """Nobody paid: the goods go back on the shelf."""
    return f"order {order} was not paid in time"


@app.task(priority="high")
def pay_order(order: int) -> bool:
    """Paid: it must not expire any more. False when it was too late."""
    in_time = app.cancel(key=f"expire:{order}") == 1
    if in_time:
        send_mail.enqueue(f"customer-{order}@example.org", "Your receipt")
    return in_time


@app.task(queue="mail", retries=6, backoff="500ms")
async def send_mail(to: str, subject: str) -> None:
    """The mail server hangs up on one in six, and a retry helps."""
    await asyncio.sleep(_dice().uniform(0.02, 0.2))  # noqa: TID251 - it stands for a slow server
    if _dice().random() < 1 / 6:
        raise ConnectionError("the mail server hung up")
    print(f"to {to}: {subject}")


@app.task(queue="images", pool="process", timeout="30s")
def make_thumbnail(photo: int, width: int) -> int:
    """Scale a picture down, pixel by pixel: work for a process of its own."""
    size = 16 * width
    return sum((x * y + photo) % 256 for y in range(0, size, 8) for x in range(0, size, 8)) // (width * width)


@app.task(retries=3, backoff="1s")
def import_catalogue(rows: int) -> int:
    """Read a long list, saving the place: when the supplier's server hangs up, the next attempt goes on from there."""
    job = current_job()
    row = job.saved or 0
    hangs_up_at = _dice().randrange(rows) if job.attempt == 1 else None
    job.logger.info("starting at row %d", row)
    while row < rows:
        time.sleep(0.02)  # noqa: TID251 - it stands for the supplier's server
        row += 1
        job.progress(row / rows, f"row {row} of {rows}")
        if row % 50 == 0:
            job.save(row)
        if row == hangs_up_at:
            raise ConnectionError(f"the supplier's server hung up at row {row}")
    return rows


@app.task(queue="mail")
def charge_card(card: str) -> None:
    """No retry can help: it fails at once, and waits among the dead letters for somebody to look at it."""
    raise Fatal("the card has expired")


def _dice() -> Random:
    """Chance, but the same for the same attempt."""
    return Random(current_job().token)
