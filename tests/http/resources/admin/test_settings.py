"""The settings of a server and their sources, without passwords; its services and clocks."""

from pathlib import Path
from random import Random

import pytest
from starlette.testclient import TestClient

from tests.waiting import eventually
from tickwork import Tickwork
from tickwork.clock import SystemClock
from tickwork.config import SETTINGS, find_settings
from tickwork.core.text.mask_url import masked
from tickwork.http.server_context import ServerContext
from tickwork.services.runner import Runner


def test_settings_say_where_they_come_from(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "tickwork.toml").write_text('schema = "jobs"\npublic_url = "https://jobs.example"\n')
    (tmp_path / "url").write_text("postgresql://ada:pass@db/jobs")
    environ = {"TICKWORK_PUBLIC_URL": "https://x.example", "TICKWORK_URL_FILE": str(tmp_path / "url")}
    settings, sources = find_settings({"namespace": "red", "driver": None}, environ)
    assert (settings.url, settings.driver) == ("postgresql://ada:pass@db/jobs", "apsw")
    assert sources == {
        "schema": str(tmp_path / "tickwork.toml"),
        "public_url": "TICKWORK_PUBLIC_URL",
        "url": "TICKWORK_URL_FILE",
        "namespace": "argument",
    }


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("postgresql://ada:p@ss@db:5432/jobs", "postgresql://ada:***@db:5432/jobs"),
        ("postgresql://db/jobs?user=ada&password=pass&x=1", "postgresql://db/jobs?user=ada&password=***&x=1"),
        ("postgresql://db/jobs?sslpassword=pass", "postgresql://db/jobs?sslpassword=***"),
        ("postgresql://ada@db/jobs", "postgresql://ada@db/jobs"),
        ("postgresql://ada:p@db/jobs?x=1&p%61ssword=pa%73s", "postgresql://ada:***@db/jobs?x=1&p%61ssword=***"),
        ("postgresql://ada:p@db1:1,db2:2/jobs?PASSWORD=pa#ss", "postgresql://ada:***@db1:1,db2:2/jobs?PASSWORD=***"),
        ("host=db user=ada password=pass port=1", "host=db user=ada password=*** port=1"),
        (r"password = 'p\'a ss' host=db", "password = *** host=db"),
        (r"password=p\ a\'ss host=db", "password=*** host=db"),
        ("host=db sslpassword='never closed", "host=db sslpassword=***"),
        ("postgresql:ada:pass@db/jobs", "postgresql:ada:***@db/jobs"),
        ("postgresql://ada:pa/ss@db/jobs", "postgresql://ada:***@db/jobs"),
        ("7d, failed=30d", "7d, failed=30d"),
        ("sqlite:///tickwork.db", "sqlite:///tickwork.db"),
        ("10.0.0.0/8, x.example", "10.0.0.0/8, x.example"),
    ],
)
def test_no_password_is_shown(url: str, shown: str) -> None:
    assert masked(url) == shown


def test_the_settings_of_a_server_are_for_those_who_administer_it(admin: TestClient, app: Tickwork) -> None:
    items = {one["name"]: one for one in admin.get("/api/v1/config").json()["items"]}
    told = {name: (one["value"], one["source"], one["variable"]) for name, one in items.items()}
    assert told["url"] == (masked(app.settings.url), "argument", "TICKWORK_URL")
    assert told["driver"] == ("apsw", "default", "TICKWORK_DRIVER")
    assert told["canary"][0] is None
    assert {name: one["description"] for name, one in items.items()} == {one.name: one.description for one in SETTINGS}


def test_health_tells_of_the_store_its_clock_and_the_services(
    admin: TestClient, app: Tickwork, parts: ServerContext
) -> None:
    class Steady:
        def tick(self, now: float) -> float:
            return 60.0

    class Broken:
        def tick(self, now: float) -> float:
            raise ValueError("no such thing")

    runner = Runner(SystemClock(), Random(1), parts.ticks)
    try:
        for service in (Steady(), Broken()):
            runner.start(service)
        eventually(lambda: len(admin.get("/api/v1/health").json()["services"]) == 2)
        found = admin.get("/api/v1/health").json()
    finally:
        runner.stop()
    broken, steady = found["services"]
    assert (steady["name"], steady["error"], steady["failed_s"]) == ("steady", None, None)
    assert (broken["name"], broken["error"]) == ("broken", "no such thing")
    assert found["store"] == ("sqlite" if app.url.startswith("sqlite") else "postgresql")
    assert found["schema_version"] == app.store.schema_status().applied[-1].number
    assert abs(found["clock_ahead_s"]) < 60
    assert found["uptime_s"] >= 0
    assert found["scheduler_late_s"] == 0
    assert "size" in found["facts"]
