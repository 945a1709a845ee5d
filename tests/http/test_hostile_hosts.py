"""Hosts that a regular expression once never ended with: refused at once, wherever they come from."""

import faulthandler
from collections.abc import Iterator

import pytest
from starlette.testclient import TestClient

from tests.worker.listeners import says, web
from tickwork import JobFailed, Tickwork

HOSTS = ["a" * 60 + "-", "a" * 8000 + "-", "-" * 200, "a." * 4000, "é" * 4000, "a" * 64 + ".example"]


@pytest.fixture(autouse=True)
def ends_the_process() -> Iterator[None]:
    """A match holds the interpreter, so that nothing of ours can end it; this can, and the test has failed then."""
    faulthandler.dump_traceback_later(50, exit=True)
    yield
    faulthandler.cancel_dump_traceback_later()


@pytest.fixture
def working(app: Tickwork, monkeypatch: pytest.MonkeyPatch) -> Iterator[Tickwork]:
    """An app whose worker may reach 127.0.0.1."""
    monkeypatch.setenv("TICKWORK_HTTP_ALLOW", "127.0.0.1")
    reaching = Tickwork(app.url)
    with reaching.worker(concurrency=4):
        yield reaching
    reaching.close()


def error_of(app: Tickwork, url: str) -> str:
    job = app.enqueue("http", url=url)
    with pytest.raises(JobFailed):
        job.result(timeout=20)
    assert len(job.attempts()) == 1  # no later try would end otherwise
    return str(job.view.error)


def test_a_job_with_such_a_host_fails_at_once(working: Tickwork) -> None:
    for host in HOSTS:
        error = error_of(working, f"http://{host}/")
        said = error.splitlines()[-1]
        assert said.startswith("tickwork.errors.InvalidArguments: the url has"), error
        assert len(said) < 300


def test_a_job_that_is_sent_on_to_such_a_host_fails_at_once(working: Tickwork) -> None:
    for host in ["a" * 60 + "-", "a" * 9000 + "-", "a." * 4000]:
        with web(says(302, Location=f"http://{host}/")) as there:
            error = error_of(working, there.url())
        assert "was sent on to nowhere: the url" in error
        assert len(error) < 400


def test_a_mail_to_such_a_host_fails_at_once(working: Tickwork) -> None:
    for host in ("é" * 4000, "a" * 4000):
        job = working.enqueue("smtp", host=host, sender="a@b.example", to=["c@d.example"], subject="s", text="t")
        with pytest.raises(JobFailed):
            job.result(timeout=20)
        assert "the host has more than 253 characters: nothing was sent" in str(job.view.error)


def test_a_channel_with_such_a_host_is_refused(admin: TestClient) -> None:
    for host in HOSTS:
        body = {"kind": "webhook", "url": f"http://{host}/"}
        answer = admin.put("/api/v1/channels/c", json=body)
        assert answer.status_code == 422, answer.text
        assert answer.json()["detail"].startswith("the url")
    assert admin.get("/api/v1/channels").json()["items"] == []
