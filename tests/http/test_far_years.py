"""Rules at the ends of the calendar, by every route that takes one, on both stores."""

import json
from typing import Any

import pytest
from starlette.testclient import TestClient

API = "/api/v1"
DAG = {"steps": {"a": {"task": "a"}}}
RULES = [
    "FREQ=DAILY;UNTIL=00010101T000000Z",
    "FREQ=DAILY;UNTIL=99991231T235959Z",
    "FREQ=DAILY;UNTIL=99991231",
    "DTSTART:00010101T000000Z\nRRULE:FREQ=DAILY",
    "DTSTART:99991231T235959Z\nRRULE:FREQ=DAILY",
    "DTSTART;TZID=Pacific/Kiritimati:99991231T235959Z\nRRULE:FREQ=DAILY;UNTIL=99991231T235959Z",
]
INTERVALS = ["R/1970-01-01T00:00Z/P1M365000D", "R1/0001-01-01T00:00+14:00/P1D", "R1/9999-12-31T23:59-14:00/P1D"]


def is_answered(admin: TestClient, method: str, path: str, body: dict[str, Any]) -> bool:
    """Whether something was stored. What is refused is refused as what is wrong of the caller."""
    answer = admin.request(method, f"{API}{path}", json=body)
    assert answer.status_code in (200, 201, 422), (body, answer.text)
    return answer.status_code < 300


@pytest.mark.parametrize("tz", ["UTC", "Pacific/Kiritimati", "Pacific/Pago_Pago"])
def test_no_rule_breaks_a_route_that_takes_one(admin: TestClient, tz: str) -> None:
    for kind, rules in (("rrule", RULES), ("every", INTERVALS)):
        for text in rules:
            zone = {"tz": tz} if kind == "rrule" else {}
            is_answered(admin, "POST", "/cron/explain", {"expression": text, "tz": tz})
            schedule = {kind: text, "task": "a", **zone}
            stored = is_answered(admin, "PUT", "/schedules/s", schedule)
            of_dag = {kind: text, "dag": "d", **zone}
            declared = {"text": json.dumps({"dags": {"d": DAG}, "schedules": {"t": of_dag}}), "format": "json"}
            assert is_answered(admin, "POST", "/dags", declared) == stored
            for path in ("/schedules", "/schedules/s/next", "/schedules/s"):
                assert admin.get(f"{API}{path}").status_code in (200, 404)
            admin.delete(f"{API}/schedules/s")
            admin.delete(f"{API}/schedules/t")


def test_no_rate_breaks_a_change_of_many_jobs(admin: TestClient) -> None:
    for rate in ("0.00000000000000000001/h", "0.0001/h"):
        for path, body in (
            ("/bulk", {"action": "retry", "filter": {"state": "failed"}, "rate": rate}),
            ("/dead/redrive", {"filter": {}, "rate": rate}),
        ):
            assert admin.post(f"{API}{path}", json=body).status_code == 422
