"""Stands in for `tickwork worker FILE --processes N` while there is no such command; then this file goes."""

from __future__ import annotations

import sys

from tickwork.app import open_store
from tickwork.config import Settings
from tickwork.worker.supervisor import SupervisorOptions, supervise

if __name__ == "__main__":
    target, _, processes = sys.argv[1:]
    supervise(
        SupervisorOptions(target, processes=int(processes)),
        lambda settings: open_store(Settings(**settings)),  # type: ignore[arg-type]
        lambda hello, store: None,
    )
