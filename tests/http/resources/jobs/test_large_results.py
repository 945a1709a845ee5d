"""Large results over REST: sent piece by piece, and never held in memory as a whole."""

import hashlib
import tracemalloc
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from tests.http.work import claimed, succeed
from tickwork import Tickwork
from tickwork.blobs import LocalBlobs
from tickwork.http.resources.jobs import job_history

# The reader of large results is tested without a request, to measure its memory.
from tickwork.http.resources.jobs.job_history import _large

JOBS = "/api/v1/jobs"
WHOLE_LIMIT = 4 * 1024 * 1024


@pytest.fixture(autouse=True)
def lower_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    """The real one would have each test write hundreds of megabytes."""
    monkeypatch.setattr(job_history, "READ_LIMIT", WHOLE_LIMIT)


class OnlyGets:
    """A place for blobs that has no files."""

    def __init__(self, inner: LocalBlobs) -> None:
        self.put, self.get, self.delete, self.keys = inner.put, inner.get, inner.delete, inner.keys


@pytest.fixture
def blobs(app: Tickwork, tmp_path: Path) -> LocalBlobs:
    made = LocalBlobs(tmp_path / "blobs")
    app.__dict__["blobs"] = made
    return made


def enqueue(admin: TestClient) -> str:
    return str(admin.post(JOBS, json={"task": "mail"}).json()["id"])


def ended(admin: TestClient, app: Tickwork, data: bytes) -> str:
    """The id of a job with this result."""
    id = enqueue(admin)
    (one,) = claimed(app)
    succeed(app, one, app.large_results.keep(data, one.job_id, one.attempt, "the result"))
    return id


def test_a_result_that_is_too_large_for_memory_is_sent_from_its_file(
    admin: TestClient, app: Tickwork, blobs: LocalBlobs
) -> None:
    data = b'"' + b"x" * (3 * WHOLE_LIMIT) + b'"'
    id = ended(admin, app, data)
    digest, size = hashlib.sha256(), 0
    with admin.stream("GET", f"{JOBS}/{id}/result") as answer:
        assert (answer.status_code, answer.headers["content-length"]) == (200, str(len(data)))
        for piece in answer.iter_raw():
            digest.update(piece)
            size += len(piece)
    assert (size, digest.hexdigest()) == (len(data), hashlib.sha256(data).hexdigest())


def test_what_is_read_ahead_of_it_is_bounded(admin: TestClient, app: Tickwork, blobs: LocalBlobs) -> None:
    data = b'"' + b"x" * (3 * WHOLE_LIMIT) + b'"'
    id = ended(admin, app, data)
    stored = app.job(id).view.result  # type: ignore[union-attr]
    del data
    tracemalloc.start()
    file, size = _large(_CallOf(app), stored or b"")  # type: ignore[arg-type]
    sent = sum(len(piece) for piece in job_history._pieces(file))
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert sent == size > 3 * WHOLE_LIMIT
    assert most < WHOLE_LIMIT
    assert file.closed


def test_a_large_result_that_was_damaged_is_not_sent(admin: TestClient, app: Tickwork, blobs: LocalBlobs) -> None:
    id = ended(admin, app, b'"' + b"x" * (WHOLE_LIMIT + 10) + b'"')
    (path,) = [one for one in blobs.folder.rglob("*") if one.is_file()]
    with open(path, "r+b") as file:
        file.seek(WHOLE_LIMIT)
        file.write(b"y")
    answer = admin.get(f"{JOBS}/{id}/result")
    assert (answer.status_code, answer.json()["code"]) == (503, "result-unavailable")


def test_a_result_that_cannot_be_sent_in_pieces_is_refused_with_what_to_do(
    admin: TestClient, app: Tickwork, blobs: LocalBlobs
) -> None:
    id = ended(admin, app, b'"' + b"x" * (WHOLE_LIMIT + 10) + b'"')
    app.__dict__["blobs"] = OnlyGets(blobs)
    app.__dict__.pop("large_results", None)
    answer = admin.get(f"{JOBS}/{id}/result")
    assert (answer.status_code, answer.json()["code"]) == (409, "result-too-large")
    assert "app.job(id).result()" in answer.json()["detail"]


def test_results_in_a_result_count_together(admin: TestClient, app: Tickwork, blobs: LocalBlobs) -> None:
    one = b'"' + b"x" * (WHOLE_LIMIT - 100) + b'"'
    kept = app.large_results.keep(one, "019a8f3e-1c2d-7abc-8def-0123456789ab", 1, "the result")
    id = enqueue(admin)
    (claim,) = claimed(app)
    succeed(app, claim, b"[" + kept + b"," + kept + b"]")
    answer = admin.get(f"{JOBS}/{id}/result")
    assert (answer.status_code, answer.json()["code"]) == (409, "result-too-large")


class _CallOf:
    def __init__(self, app: Tickwork) -> None:
        self.app: Any = app
