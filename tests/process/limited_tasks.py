"""Tasks under limits for the workers of test_limits.py. Store and witness: as in tasks.py."""

from tests.process.tasks import nap
from tests.process.witness import tell
from tickwork import Tickwork, concurrency, current_job, rate

app = Tickwork()


@app.task(retries=0, limits=[concurrency(3, key="account")])
def visit(account: str, seconds: float) -> None:
    tell("start")
    nap(seconds)
    tell("end")


@app.task(retries=0, limits=[rate("50/s", burst=5)])
def call(n: int) -> int:
    return n


@app.task(retries=1, backoff="200ms", sequence="account")
def post(account: str, seconds: float, fails: bool) -> None:
    """Take its time; one that fails does so at its first attempt."""
    tell("start")
    nap(seconds)
    tell("end")
    if fails and current_job().attempt == 1:
        raise ValueError("not yet")
