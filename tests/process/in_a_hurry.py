"""`tickwork worker` that waits less than any option makes it, for tests that wait with it.

{"lease": SECONDS, "calm": SECONDS} MODULE_OR_FILE OPTIONS...
"""

import json
import sys
from dataclasses import replace
from datetime import timedelta
from typing import Any

import msgspec

from tickwork import config
from tickwork.cli.main import main
from tickwork.worker import supervisor

TIMES = {name: timedelta(seconds=seconds) for name, seconds in json.loads(sys.argv[1]).items()}
supervise = supervisor.supervise
config.LEAST_LEASE = timedelta(0)


def supervise_in_a_hurry(options: supervisor.SupervisorOptions, *rest: Any) -> None:
    if "lease" in TIMES:
        options = replace(options, lease=TIMES["lease"])
    if "calm" in TIMES:
        options = replace(options, processes=msgspec.structs.replace(options.processes, calm=TIMES["calm"]))
    supervise(options, *rest)


supervisor.supervise = supervise_in_a_hurry
sys.argv[1:2] = ["worker"]
main()
