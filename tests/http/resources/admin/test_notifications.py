"""Notifications and channels over REST."""

from starlette.testclient import TestClient

from tickwork import Tickwork

CHANNEL = "/api/v1/channels/ops"
NIGHT = "/api/v1/notifications/night"


def test_a_channel_is_made_changed_listed_and_deleted(admin: TestClient) -> None:
    answer = admin.put(CHANNEL, json={"kind": "slack", "url": "${secret.SLACK_URL}"})
    assert answer.status_code == 201
    made = admin.put(CHANNEL, json={"kind": "webhook", "url": "https://hook.example/", "secret": "${secret.SIGN}"})
    assert made.status_code == 200
    assert admin.get(CHANNEL).json() == made.json()
    assert {name: value for name, value in made.json().items() if value is not None} == {
        "name": "ops",
        "kind": "webhook",
        "url": "https://hook.example/",
        "secret": "${secret.SIGN}",
    }
    assert admin.get("/api/v1/channels").json() == {"items": [made.json()], "next_cursor": None}
    assert admin.delete(CHANNEL).status_code == 204
    assert admin.delete(CHANNEL).status_code == 404
    assert admin.get(CHANNEL).status_code == 404


def test_a_mail_channel_comes_back_as_it_was_said(admin: TestClient) -> None:
    said = {"kind": "smtp", "host": "mx.example", "sender": "a@b.example", "to": ["c@d.example"], "tls": "tls"}
    made = admin.put(CHANNEL, json=said).json()
    assert {**made, **said} == made
    assert made["port"] == 465


def test_a_notification_is_made_changed_listed_and_deleted(admin: TestClient) -> None:
    assert admin.put(NIGHT, json={"on": "failed", "to": ["ops"]}).status_code == 422
    admin.put(CHANNEL, json={"kind": "slack", "url": "https://chat.example/"})
    assert admin.put(NIGHT, json={"on": "failed", "to": ["ops"]}).status_code == 201
    made = admin.put(NIGHT, json={"on": "late", "to": ["ops"], "dag": "nightly", "after": "1h30m", "window": "10m"})
    assert made.status_code == 200
    assert made.json() == {
        "name": "night",
        "on": "late",
        "to": ["ops"],
        "task": None,
        "dag": "nightly",
        "queue": None,
        "schedule": None,
        "after": "1h30m",
        "window": "10m",
        "told_at": None,
        "waiting_count": 0,
    }
    assert admin.get(NIGHT).json() == made.json()
    assert admin.get("/api/v1/notifications").json()["items"] == [made.json()]
    refused = admin.delete(CHANNEL)
    assert (refused.status_code, refused.json()["code"]) == (422, "invalid")
    assert admin.delete(NIGHT).status_code == 204
    assert admin.get(NIGHT).status_code == 404
    assert admin.delete(NIGHT).status_code == 404


def test_what_cannot_be_is_refused_in_words(admin: TestClient) -> None:
    admin.put(CHANNEL, json={"kind": "slack", "url": "https://chat.example/"})
    for body, said in (
        ({"on": "broken", "to": ["ops"]}, "Invalid enum value"),
        ({"on": "silent", "to": ["ops"], "after": "1h"}, "one of task, dag and schedule"),
        ({"on": "late", "to": ["ops"], "after": "soon"}, "is not a duration"),
        ({"on": "failed", "to": []}, "say where it is told"),
    ):
        answer = admin.put(NIGHT, json=body)
        assert answer.status_code == 422
        assert said in answer.json()["detail"]
    answer = admin.put(CHANNEL, json={"kind": "webhook", "url": "https://x.example/", "secret": "in plain sight"})
    assert (answer.status_code, "in plain sight" in answer.text) == (422, False)


def test_a_test_message_is_a_job(admin: TestClient, app: Tickwork) -> None:
    admin.put(CHANNEL, json={"kind": "slack", "url": "https://chat.example/"})
    admin.put(NIGHT, json={"on": "failed", "to": ["ops"]})
    answer = admin.post(f"{NIGHT}/test")
    assert answer.status_code == 202
    (id,) = answer.json()["jobs"]
    job = app.job(id)
    assert job is not None
    assert (job.view.task, b"this is a test of the notification night" in job.view.args) == ("http", True)
    assert admin.post("/api/v1/notifications/other/test").status_code == 404
