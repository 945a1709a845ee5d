"""Arguments over REST are taken in the form in which they are shown, so what was read can be sent again."""

from typing import Any

import pytest
from starlette.testclient import TestClient

from tests.waiting import eventually
from tickwork import Tickwork

API = "/api/v1"
ID = "12345678-1234-5678-1234-567812345678"


@pytest.fixture
def known(admin: TestClient, app: Tickwork) -> TestClient:
    """A server that a worker has told of a task without hints, which says what type it was given."""
    there = Tickwork(app.url)

    @there.task(name="tell")
    def tell(x):  # type: ignore[no-untyped-def]
        return type(x).__name__

    with there.worker():
        eventually(lambda: app.store.reads.task_definition("tell"))
        yield admin
    there.close()


@pytest.mark.parametrize(
    ("given", "kind"),
    [({"$uuid": ID}, "UUID"), ({"$dict": {"$uuid": ID}}, "dict"), ({"a": 1}, "dict"), ({"$set": [1]}, "set")],
)
def test_arguments_that_were_shown_can_be_sent_again(known: TestClient, given: dict[str, Any], kind: str) -> None:
    first = known.post(f"{API}/jobs", json={"task": "tell", "args": {"x": given}}).json()
    assert first["args"] == {"x": given}
    again = known.post(f"{API}/jobs/{first['id']}/rerun", json={"args": first["args"]}).json()
    assert again["args"] == first["args"]
    (batched,) = known.post(f"{API}/jobs/batch", json={"jobs": [{"task": "tell", "args": again["args"]}]}).json()[
        "items"
    ]
    for id in (first["id"], again["id"], batched["id"]):
        assert known.get(f"{API}/jobs/{id}").json()["args"] == {"x": given}
        assert known.get(f"{API}/jobs/{id}/result?wait=20").json() == kind


def test_a_tag_that_there_is_not_is_refused_before_it_is_stored(known: TestClient) -> None:
    for value in ({"$uuid": "no"}, {"$foo": 1}, {"$set": [[1]]}):
        answer = known.post(f"{API}/jobs", json={"task": "tell", "args": {"x": value}})
        assert answer.status_code == 422, answer.text
    assert known.get(f"{API}/jobs").json()["items"] == []
