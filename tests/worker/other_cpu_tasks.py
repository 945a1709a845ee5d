"""A second module with a task that runs in a process of its own."""

import os

from tests.worker.cpu_tasks import app


@app.task(pool="process")
def elsewhere() -> int:
    return os.getpid()
