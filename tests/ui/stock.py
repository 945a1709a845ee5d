"""Fills a store of these tests with work and with everything else that pages show, all of it with hostile names."""

import hashlib
import hmac
import json
import time

import httpx2

from tests.ui.hostile import HOSTILE, MAIL
from tests.ui.serving import PASSWORD, VIEWER, Served
from tests.waiting import eventually
from tickwork import Job

SECRET = "a secret of a hook"
SETTLE_S = 60.0


def stock(served: Served) -> None:
    """Fill it, and return when everything that ends by itself has ended."""
    look_after(served)
    ended = [*ordinary(served), *hostile(served), *runs(served)]
    held(served)
    messages(served)
    eventually(lambda: all(job.view.state.ended for job in ended), SETTLE_S, "the work of the shop has ended")


def ordinary(served: Served) -> list[Job]:
    """Jobs that end well and badly, and some that do not end: tried again later, delayed, and long ones."""
    app = served.app
    app.named("flaky").enqueue("ada")
    app.named("import_file").enqueue("people.csv")
    app.named("send_email").options(delay="2h").enqueue("later@example.org")
    mails = app.named("send_email").enqueue_many([(f"user{n}@example.org",) for n in range(40)])
    return [*mails, *app.named("charge").enqueue_many([(f"customer {n % 3}", n) for n in range(8)])]


def hostile(served: Served) -> list[Job]:
    options = {"key": f"key {HOSTILE}", "labels": [f"label:{HOSTILE}"], "tenant": HOSTILE, "collection": HOSTILE}
    return [served.app.named(MAIL).options(**options).enqueue(HOSTILE), served.app.named("charge").enqueue(HOSTILE, 1)]


def runs(served: Served) -> list[Job]:
    """Runs that succeed and fail, and one that waits for an approval."""
    app = served.app
    app.named(f"dag {HOSTILE}").enqueue()
    return [app.named("etl").enqueue(day="2026-11-14"), app.named("etl").enqueue(day="2026-11-15", breaks=True)]


def held(served: Served) -> None:
    """A gate, and jobs behind it."""
    served.app.pause(task="wait_for_ever", reason=f"the provider is down {HOSTILE}")
    served.app.named("wait_for_ever").enqueue_many([(f"{n} {HOSTILE}",) for n in range(3)])


def look_after(served: Served) -> None:
    """Users, keys, secrets, channels and notifications."""
    for name, role in ((VIEWER, "viewer"), ("olga", "operator")):
        served.post("/users", {"name": name, "role": role, "password": PASSWORD})
    served.post("/keys", {"name": "deploy", "scopes": ["enqueue", "read"], "expires": "90d"})
    old = served.post("/keys", {"name": "old", "scopes": ["read"]})
    served.post(f"/keys/{old['id']}/revoke")
    served.put("/secrets/HOOK_SECRET", {"value": SECRET})
    served.put("/channels/ops", {"kind": "slack", "url": f"https://chat.example.org/{HOSTILE.replace(' ', '/')}"})
    served.put("/notifications/broken", {"on": "failed", "to": ["ops"], "task": f"task {HOSTILE}", "window": "1h"})


def messages(served: Served) -> None:
    """A hook with deliveries: accepted, repeated, of another type, and signed with a wrong secret."""
    spec = {"style": "generic", "secret": "HOOK_SECRET", "task": "report", "args": {"day": "${body.day}"}}
    served.put("/hooks/paid", {**spec, "events": ["paid", HOSTILE], "description": f"Payments {HOSTILE}"})
    good = {"type": "paid", "day": HOSTILE}
    for said in (good, good, {"type": f"refund {HOSTILE}"}, {"type": HOSTILE}):
        deliver(served, "paid", said)
    deliver(served, "paid", good, secret="a guess")


def deliver(served: Served, hook: str, said: dict[str, str], secret: str = SECRET) -> httpx2.Response:
    """Leave a message at a hook, signed as generic ones are."""
    at, data = int(time.time()), json.dumps(said)
    signature = hmac.new(secret.encode(), f"{at}.{data}".encode(), hashlib.sha256).hexdigest()
    headers = {"X-Tickwork-Signature": f"t={at},v1={signature}", "Content-Type": "application/json"}
    return httpx2.post(f"{served.address}/hooks/{hook}", content=data, headers=headers, trust_env=False)
