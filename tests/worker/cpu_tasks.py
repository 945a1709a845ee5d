"""Tasks that run in a process of their own: a child imports them from here. TICKWORK_URL says which store."""

import os
import time

from tickwork import Tickwork, current_job

app = Tickwork()


@app.task(pool="process")
def where() -> int:
    return os.getpid()


@app.task(pool="process")
def count(n: int) -> int:
    print(f"counting to {n}")
    current_job().progress(0.5)
    return sum(range(n))


@app.task(pool="process", timeout="300ms", retries=0)
def sleeps() -> None:
    time.sleep(1000)


@app.task(pool="process", retries=0)
def saves() -> int:
    job = current_job()
    job.save({"parent": job.id})
    children.enqueue(job.saved["parent"])
    return job.attempt


@app.task
def children(parent: str) -> str:
    return parent


@app.task(pool="process")
def waits(seconds: float) -> str:
    time.sleep(seconds)
    return "waited"


@app.task(pool="process", retries=0)
def dies() -> None:
    os._exit(7)
