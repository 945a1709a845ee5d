"""One scheduler and nothing else, until it is killed: `python -m tests.process.scheduler_process URL`."""

import secrets
import sys
from random import Random

from tickwork.app import open_store
from tickwork.clock import SystemClock
from tickwork.config import load_settings
from tickwork.core.ids import IdMaker
from tickwork.services.runner import Runner
from tickwork.services.scheduler import Scheduler


def main(url: str) -> None:
    store, clock = open_store(load_settings({"url": url})), SystemClock()
    ids = IdMaker(lambda: clock.wall_us() // 1000, secrets.randbits)
    runner = Runner(clock, Random(secrets.randbits(64)))
    runner.start(Scheduler(store, ids, clock))
    sys.stdin.read()  # until the parent process is gone


if __name__ == "__main__":
    main(*sys.argv[1:])
