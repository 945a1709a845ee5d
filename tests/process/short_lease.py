"""`tickwork worker` with a short lease, for tests that wait for one to run out: SECONDS MODULE_OR_FILE OPTIONS..."""

import sys
from dataclasses import replace
from datetime import timedelta
from typing import Any

from tickwork.cli.main import main
from tickwork.worker import supervisor

LEASE = timedelta(seconds=float(sys.argv[1]))
supervise = supervisor.supervise


def supervise_with_short_lease(options: supervisor.SupervisorOptions, *rest: Any) -> None:
    supervise(replace(options, lease=LEASE), *rest)


supervisor.supervise = supervise_with_short_lease
sys.argv[1:2] = ["worker"]
main()
