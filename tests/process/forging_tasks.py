"""A task that writes a text in every way that a process has, to pass for a record of its worker."""

import logging
import os
import subprocess
import sys
import threading
import warnings

from tickwork import Tickwork, current_job

app = Tickwork()
early = logging.getLogger("early")  # of a library that took sys.stderr when it was imported
early.addHandler(logging.StreamHandler(sys.stderr))
early.propagate = False
out_at_import = sys.stdout
print("the code loads")


@app.task(retries=0)
def forges(text: str) -> None:
    print(text)
    print(text, file=sys.stderr)
    sys.stdout.write(f"\r{text}\n")
    out_at_import.write(f"{text}\n")
    out_at_import.flush()
    sys.stdout.flush()
    sys.stdout.buffer.write(f"{text}\n".encode())
    sys.stdout.buffer.flush()
    for descriptor in (1, 2, sys.stdout.fileno(), sys.stderr.fileno(), out_at_import.fileno()):
        os.write(descriptor, f"{text}\n".encode())
    subprocess.run(["sh", "-c", 'printf "%s\n" "$1"; printf "%s\n" "$1" >&2', "sh", text], check=True)
    early.warning(text)
    logging.getLogger("shop").error("%s", f"quoted\n{text}")
    for name in ("tickwork", "tickwork.worker", "tickwork.cli"):
        logging.getLogger(name).error(
            "%s", text, extra={"tickwork_attempt": {"source": "tickwork", "pid": os.getppid()}}
        )
    current_job().logger.info(text)
    warnings.warn(f"careful\n{text}", stacklevel=1)
    thread = threading.Thread(target=print, args=(text,))
    thread.start()
    thread.join()
    print(text, end="")


WAYS = 20  # in which the text is shown at least once
