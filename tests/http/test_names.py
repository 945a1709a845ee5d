"""Names are addressed as URLs quote them, whatever they are made of; a quoted slash parts nothing."""

from urllib.parse import quote

import pytest
from starlette.testclient import TestClient

NAMES = ["nightly/report", "/", "a//b/", "reports/trigger", "50% /x", "a b?c=d#e", "käse/ß", "%", "x/../y", "&;:@,+"]


def part(name: str) -> str:
    return quote(name, safe="")


@pytest.mark.parametrize("name", NAMES)
def test_a_schedule_is_written_read_triggered_and_deleted_by_any_name(admin: TestClient, name: str) -> None:
    path = f"/api/v1/schedules/{part(name)}"
    assert admin.put(path, json={"task": "report", "every": "1h"}).status_code == 201
    assert admin.get(path).json()["name"] == name
    assert len(admin.get(f"{path}/next").json()["items"]) > 0
    started = admin.post(f"{path}/trigger").json()
    assert admin.get(f"/api/v1/jobs/{started['id']}").json()["schedule"] == name
    assert [one["name"] for one in admin.get("/api/v1/schedules").json()["items"]] == [name]
    assert admin.delete(path).status_code == 204
    assert admin.get(path).status_code == 404


def test_queues_and_tenants_with_slashes_are_changed_and_no_others(admin: TestClient) -> None:
    assert admin.post("/api/v1/queues/mail%2feu/pause", json={}).status_code == 200
    assert [one["queue"] for one in admin.get("/api/v1/gates").json()["items"]] == ["mail/eu"]
    assert admin.put("/api/v1/tenants/acme%2Fnorth", json={"weight": 3}).status_code == 200
    assert admin.get("/api/v1/tenants").json()["items"] == [{"name": "acme/north", "weight": 3}]


def test_a_slash_that_is_said_as_it_is_parts_the_path(admin: TestClient) -> None:
    assert admin.put("/api/v1/schedules/a%2Fb", json={"task": "report", "every": "1h"}).status_code == 201
    for path in ("/api/v1/schedules/a/b", "/api/v1%2Fschedules/a", "/api/v1/schedules%2Fa%2Fb", "/%2F", "/api%2fv1"):
        assert admin.get(path).status_code == 404, path
    assert admin.get("/api/v1/%73chedules/%61%2fb").json()["name"] == "a/b"
    assert admin.post("/api/v1/schedules/a%2Fb").status_code == 405


def test_a_name_with_a_slash_is_refused_to_those_who_may_not(anybody: TestClient) -> None:
    assert anybody.get("/api/v1/schedules/a%2Fb").status_code == 401
    assert anybody.delete("/api/v1/schedules/healthz%2F").status_code == 401
