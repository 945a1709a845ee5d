"""Real workers report real failures once, in signed messages of ordinary jobs, whichever worker is killed meanwhile."""

import hashlib
import hmac
import json
import signal
import time
from pathlib import Path

import pytest

from tests.cli.programs import program
from tests.waiting import eventually
from tests.worker.listeners import says, web
from tickwork import Tickwork

pytestmark = pytest.mark.process

TASKS = """
from tickwork import Tickwork
app = Tickwork()

@app.task(retries=0)
def report(day: str):
    raise ValueError(f"no rows for {day}")
"""


def test_failures_are_told_once_while_workers_are_killed(store_url: str, tmp_path: Path) -> None:
    (tmp_path / "shop.py").write_text(TASKS)
    environment = {
        "TICKWORK_URL": store_url,
        "TICKWORK_HTTP_ALLOW": "127.0.0.1",
        "SIGNING": "s1gning-s3cret",
        "TICKWORK_SECRET_ENV": "SIGNING",
        "TICKWORK_PUBLIC_URL": "https://tick.example",
    }
    app = Tickwork(store_url)
    command = ("worker", "shop.py", "--processes", "1")
    with web(says(204)) as there, program(tmp_path, *command, **environment) as first:
        first.says("pid ")
        app.notifications.put_channel("hook", "webhook", url=there.url("/alarm"), secret="${secret.SIGNING}")
        app.notifications.put("failures", "failed", to="hook", window="1s")
        jobs = [app.enqueue("report", day=f"day {n}") for n in range(20)]
        with program(tmp_path, *command, **environment) as second:
            second.says("pid ")
            jobs += [app.enqueue("report", day=f"day {n}") for n in range(20, 40)]
            time.sleep(4)
            first.process.send_signal(signal.SIGKILL)
            eventually(lambda: told(there.came) == 40, 40, "all failures are told")
            time.sleep(6)
    assert told(there.came) == 40
    assert len({came.body for came in there.came}) == len(there.came)
    for came in there.came:
        at, _, proof = came.headers["X-Tickwork-Signature"].removeprefix("t=").partition(",v1=")
        assert proof == hmac.new(b"s1gning-s3cret", f"{at}.".encode() + came.body, hashlib.sha256).hexdigest()
    item = json.loads(there.came[0].body)["items"][0]
    assert "ValueError: no rows for day" in item["text"]
    assert item["link"] == f"https://tick.example/#/jobs/{item['job']}"
    app.close()


def told(came: list) -> int:  # type: ignore[type-arg]
    return sum(json.loads(one.body)["count"] for one in came)
