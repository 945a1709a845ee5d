"""DBOS on PostgreSQL: a queue that is polled every 0.1 s. `python -m on_dbos NAME` is a worker of that name."""

from __future__ import annotations

import os
import sys
import threading
import time

from dbos import DBOS, DBOSClient, DBOSConfig, EnqueueOptions
from handler import stamp

STAMP = "stamp"
QUEUE = "stamps"
POLL_S = 0.1
URL = os.environ["PEERS_URL"]


@DBOS.workflow(name=STAMP)
def stamped(number: int) -> None:
    stamp(number)


class Producer:
    def __init__(self, client: DBOSClient) -> None:
        self._client = client

    async def enqueue(self, number: int) -> None:
        self._client.enqueue(EnqueueOptions(workflow_name=STAMP, queue_name=QUEUE), number)

    async def enqueue_at(self, number: int, at_s: float) -> None:
        options = EnqueueOptions(workflow_name=STAMP, queue_name=QUEUE, delay_seconds=at_s - time.time())
        self._client.enqueue(options, number)


async def start() -> Producer:
    """Create the tables with an executor, and connect."""
    launch("setup")
    DBOS.destroy()
    client = DBOSClient(system_database_url=URL)
    await client.register_queue_async(QUEUE, polling_interval_sec=POLL_S)
    return Producer(client)


def launch(executor: str) -> None:
    """Start an executor with a unique name: two with the same name would recover each other's running workflows."""
    config: DBOSConfig = {"name": "peers", "system_database_url": URL, "executor_id": executor}
    DBOS(config=config)
    DBOS.launch()


if __name__ == "__main__":
    launch(sys.argv[1])
    threading.Event().wait()
