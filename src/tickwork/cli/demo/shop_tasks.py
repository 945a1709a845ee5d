"""The tasks of `tickwork demo`: a small shop, as a user would write it.

Orders that are not paid in time expire, and a payment cancels that. Mail servers hang up now and then, pictures take
processor time, a long import resumes after a failure, and some cards can never be charged. Customer records are synced
two at a time, a schedule removes old carts, and a dag closes the books.
"""

from __future__ import annotations

import asyncio
import time
from random import Random

from tickwork.api.schedule_rules import cron, every
from tickwork.app import Tickwork
from tickwork.context import current_job
from tickwork.core.limits.limits import concurrency
from tickwork.errors import Fatal

app = Tickwork()  # the store that TICKWORK_URL names: the demo's own file
TIME_TO_PAY = "10s"
_GREEN, _RED, _DIM, _PLAIN = "\x1b[32m", "\x1b[31m", "\x1b[2m", "\x1b[0m"


@app.task
def place_order(order: int) -> None:
    """Reserve the goods for a while, and confirm the order by mail."""
    expire_order.options(delay=TIME_TO_PAY, key=f"expire:{order}").enqueue(order)
    send_mail.enqueue(f"customer-{order}@example.org", "We have your order")


@app.task
def expire_order(order: int) -> str:
    """Put the goods of an unpaid order back on the shelf."""
    return f"order {order} was not paid in time"


@app.task(priority="high")
def pay_order(order: int) -> bool:
    """Take a payment, so that the order does not expire. Returns False if it came too late."""
    in_time = app.cancel(key=f"expire:{order}") == 1
    if in_time:
        send_mail.enqueue(f"customer-{order}@example.org", "Your receipt")
    return in_time


@app.task(queue="mail", retries=6, backoff="500ms")
async def send_mail(to: str, subject: str) -> None:
    """Send a mail. The mail server hangs up on one in six, and a retry helps."""
    await asyncio.sleep(_dice().uniform(0.02, 0.2))  # noqa: TID251 - simulates a slow server
    if _dice().random() < 1 / 6:
        raise ConnectionError("the mail server hung up")
    print(f"{_GREEN}sent{_PLAIN} to {to}: {subject}")


@app.task(queue="images", pool="process", timeout="30s")
def make_thumbnail(photo: int, width: int) -> int:
    """Scale a picture down, pixel by pixel, in a process of its own."""
    size = 16 * width
    return sum((x * y + photo) % 256 for y in range(0, size, 8) for x in range(0, size, 8)) // (width * width)


@app.task(retries=3, backoff="1s")
def import_catalogue(rows: int) -> int:
    """Read a long list and save the position: if the supplier's server hangs up, the next attempt resumes there."""
    job = current_job()
    row = job.saved or 0
    hangs_up_at = _dice().randrange(rows) if job.attempt == 1 else None
    job.logger.info("starting at row %d", row)
    while row < rows:
        time.sleep(0.02)  # noqa: TID251 - simulates the supplier's server
        row += 1
        job.progress(row / rows, f"row {row} of {rows}")
        if row % 50 == 0:
            job.save(row)
        if row == hangs_up_at:
            raise ConnectionError(f"the supplier's server hung up at row {row}")
    return rows


@app.task(queue="payments", limits=[concurrency(3)])
def charge_card(card: str, cents: int) -> dict[str, str | int]:
    """Charge a card. For an expired card no retry can help: the job fails at once, and becomes a dead letter."""
    print(f"{_DIM}asking the bank about{_PLAIN} {card}")
    time.sleep(_dice().uniform(0.1, 0.6))  # noqa: TID251 - simulates the bank
    if _dice().random() < 1 / 5:
        print(f"{_RED}refused{_PLAIN}")
        raise Fatal("the card has expired")
    return {"card": card, "cents": cents, "receipt": f"r-{cents}"}


@app.task(queue="crm", limits=[concurrency(2, key="customer")], retries=2, backoff="1s")
def sync_customer(customer: str, field: str) -> None:
    """Sync a field of a customer. At most two jobs run at once for each customer; held jobs do not delay others."""
    time.sleep(_dice().uniform(0.3, 1.0))  # noqa: TID251 - simulates a slow service


@app.task(schedule=every("15s"))
def sweep_carts() -> int:
    """Empty the carts that customers left behind."""
    return _dice().randrange(20)


@app.task(schedule=cron("0 2 1 * *", tz="Europe/Berlin"))
def month_end() -> None:
    """Close the month, at 2 a.m. on its first day. The demo never runs that long."""


@app.task
def list_shops() -> list[str]:
    """Return the shops whose books are closed."""
    return ["Amsterdam", "Berlin", "Cairo", "Delhi", "Edinburgh", "Florence", "Geneva", "Hanoi"]


@app.task(retries=0)
def add_up(shop: str) -> int:
    """Add up the takings of one shop. Now and then they do not add up."""
    job = current_job()
    for done in range(5):
        job.progress(done / 5, f"drawer {done + 1} of 5")
        time.sleep(_dice().uniform(0.1, 0.5))  # noqa: TID251 - simulates counting
    if _dice().random() < 1 / 40:
        raise ValueError(f"the books of {shop} do not add up")
    return _dice().randrange(1000, 9000)


@app.task
def publish(takings: list[int]) -> int:
    """Publish the takings of all shops."""
    print(f"{_GREEN}{len(takings)} shops{_PLAIN} took {sum(takings):,} in all")
    return sum(takings)


@app.task
def wake_accountant(text: str) -> None:
    """Report books that were not closed."""
    print(f"{_RED}{text}{_PLAIN}")


@app.dag
def close_books() -> int:
    """Add up every shop's takings at the same time, then publish them."""
    takings = add_up.map(list_shops())
    total = publish(takings)
    wake_accountant.options(run_if="any_failed")("the books were not closed").after(total)
    return total


app.schedule("close-books", close_books, every("30s"))


def _dice() -> Random:
    """Return a random generator that is seeded by the attempt."""
    return Random(current_job().token)
