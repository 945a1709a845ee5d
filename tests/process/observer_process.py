"""URL LIMIT: counts the live leases of each key until its input ends, and then prints what it saw, as JSON.

A database that is away is looked for until it is back.
"""

import json
import select
import sys
from collections import Counter
from collections.abc import Callable
from typing import Any

import apsw
import psycopg

from tests.process.ledger import LEASES, Ledger, sqlite_connection

REST_S = 0.001


def looker(url: str) -> Callable[[], list[Any]]:
    """Return a query for the leases of each key at one instant."""
    if Ledger(url).kind == "sqlite":
        file = sqlite_connection(url)
        return lambda: file.execute(LEASES["sqlite"]).fetchall()
    server = psycopg.connect(url, autocommit=True, connect_timeout=5)
    return lambda: server.execute(LEASES["postgres"], prepare=True).fetchall()


def main(url: str, limit: int) -> None:
    samples, busy, outages = 0, 0, 0
    most: Counter[str] = Counter()
    too_many: list[list[Any]] = []
    look: Callable[[], list[Any]] | None = None
    while not select.select([sys.stdin], [], [], REST_S)[0]:
        try:
            look = look or looker(url)
            leases = [(str(key), count) for key, count in look()]
        except (psycopg.Error, apsw.Error):
            look, outages = None, outages + 1
            continue
        samples += 1
        busy += bool(leases)
        for key, count in leases:
            most[key] = max(most[key], count)
            if count > limit:
                too_many.append([samples, key, count])
    print(json.dumps({"samples": samples, "busy": busy, "outages": outages, "most": most, "too_many": too_many[:20]}))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
