"""Values that a notification and a channel accept."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tickwork.core.notify.channels import Mail, decode_channel, encode_channel, job_of, new_channel
from tickwork.core.notify.delivery import message_of, trial_message
from tickwork.core.notify.rule import KINDS, AlertCase, decode_notification, encode_notification, new_notification
from tickwork.core.notify.state import (
    KNOWN_LIMIT,
    AlertDigest,
    decode_watch,
    encode_watch,
    judged,
    lasting,
    new_watch,
    under_way,
)
from tickwork.errors import InvalidInput

NOW = datetime(2026, 11, 16, 12, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
NEEDS: dict[str, dict[str, Any]] = {"sla_missed": {"after": "1h"}, "silent": {"after": "1h", "task": "t"}}


@pytest.mark.parametrize("kind", KINDS)
def test_each_kind_is_stored_and_comes_back(kind: str) -> None:
    made = new_notification("n", kind, "ops", **NEEDS.get(kind, {}))
    assert decode_notification(encode_notification(made)) == made
    assert made.window == 5 * MINUTE


@pytest.mark.parametrize(
    ("on", "given", "said"),
    [
        ("broken", {}, "there are failed, dead"),
        ("failed", {"after": "1m"}, "failed is told at once"),
        ("sla_missed", {}, "needs after"),
        ("silent", {"after": "1h"}, "one of task, dag and schedule"),
        ("silent", {"after": "1h", "queue": "q"}, "cannot be narrowed by queue"),
        ("worker_lost", {"task": "t"}, "cannot be narrowed by task; it can by nothing"),
        ("failed", {"task": "t", "dag": "d"}, "give one of them"),
        ("failed", {"to": []}, "say where it is told"),
        ("failed", {"name": "a/b"}, "cannot be the name"),
        ("failed", {"color": "red"}, "has no 'color'"),
        ("late", {"after": "0s"}, "after must be from"),
        ("late", {"after": 5}, "of what"),
    ],
)
def test_what_makes_no_notification_is_refused(on: str, given: dict[str, Any], said: str) -> None:
    given = {"name": "n", "to": "ops", **given}
    with pytest.raises(InvalidInput, match=said):
        new_notification(given.pop("name"), on, given.pop("to"), **given)


@pytest.mark.parametrize(
    ("kind", "given", "said"),
    [
        ("pigeon", {}, "there are webhook, slack, smtp"),
        ("webhook", {}, "needs url"),
        ("webhook", {"url": "ftp://x"}, "must begin with http"),
        ("webhook", {"url": "https://x.example", "secret": "plain"}, "must be a reference to a secret"),
        ("slack", {"url": "https://x.example", "host": "h"}, "has no 'host'"),
        ("smtp", {"host": "h", "sender": "a@b", "to": ["no address"]}, "is no mail address"),
        ("smtp", {"host": "h", "sender": "a@b", "to": ["c@d"], "user": "u"}, "go together"),
        ("smtp", {"host": "h", "sender": "a@b", "to": ["c@d"], "tls": "maybe"}, "tls must be one of"),
        ("smtp", {"host": "h", "sender": "a@b\nBcc: x@y", "to": ["c@d"]}, "is no mail address"),
        (
            "smtp",
            {"host": "h", "sender": "a@b", "to": ["c@d"], "user": "u", "password": "${secret.P}", "tls": "none"},
            "not sent without TLS",
        ),
    ],
)
def test_what_makes_no_channel_is_refused(kind: str, given: dict[str, Any], said: str) -> None:
    with pytest.raises(InvalidInput, match=said):
        new_channel("c", kind, **given)


def a_digest(**changes: Any) -> AlertDigest:
    notification = new_notification("night", "failed", "ops", task="report")
    cases = tuple(AlertCase(f"id{n}", job=f"id{n}") for n in range(2))
    return AlertDigest(notification, **{"count": 7, "examples": cases, "first_at": NOW, "told_at": NOW, **changes})


def test_a_message_says_how_many_why_and_where() -> None:
    made = message_of(
        a_digest(), {"id0": "report id0: it ended as failed: ValueError: no rows"}, "https://tick.example/"
    )
    assert made.subject == "7 jobs failed: task report (night)"
    assert made.text.splitlines() == [
        "7 jobs failed: task report (night)",
        "- report id0: it ended as failed: ValueError: no rows https://tick.example/#/jobs/id0",
        "- job id1 is not there any more https://tick.example/#/jobs/id1",
        "- and 5 more since 2026-11-16 12:00:00 UTC",
    ]
    assert (made.body["count"], made.body["on"], made.body["items"][0]["job"]) == (7, "failed", "id0")
    assert message_of(a_digest(count=1), {}, None).subject.startswith("1 job failed")
    assert "nothing has happened" in trial_message(a_digest().notification, NOW).text


HOSTILE = [
    "<!channel> all is lost",
    "<!here|here> <!subteam^S1>",
    "<@U024BE7LH> <#C024BE7LR>",
    "<https://evil.example|https://tick.example/#/jobs/1>",
    "@channel @all @here @ada",
    "[https://tick.example](https://evil.example) ![x](https://evil.example/pixel)",
    "` <!channel> `",
    "&lt;!channel&gt;",
    "line\n- 0 jobs failed\r\n*all is well*",
    "\u202egnirts \x1b[8mhidden\x07",
]


@pytest.mark.parametrize("data", HOSTILE)
def test_what_a_slack_message_quotes_is_text_without_markup(data: str) -> None:
    message = message_of(a_digest(count=2), {"id0": data, "id1": "fine"}, "https://tick.example")
    slack = new_channel("s", "slack", url="https://hooks.example/x")
    _, arguments = job_of(slack, message)
    head, quoted, other = arguments["json"]["text"].split("\n")
    assert head == "2 jobs failed: task report (night)"
    assert other == "- `fine` https://tick.example/#/jobs/id1"
    assert quoted.startswith("- `")
    assert quoted.endswith("` https://tick.example/#/jobs/id0")
    inside = quoted.removeprefix("- `").removesuffix("` https://tick.example/#/jobs/id0")
    assert not set("<>`") & set(inside)
    assert "&" not in inside.replace("&amp;", "").replace("&lt;", "").replace("&gt;", "")
    assert inside.isprintable()


def test_the_name_of_a_notification_is_no_markup_of_slack_either() -> None:
    notification = new_notification("<!channel>", "failed", "ops")
    message = trial_message(notification, NOW)
    assert "<" not in message.markup
    assert "&lt;!channel&gt;" in message.markup


@pytest.mark.parametrize("data", HOSTILE)
def test_what_a_mail_quotes_stays_in_its_line(data: str) -> None:
    message = message_of(a_digest(count=2), {"id0": data, "id1": "fine"}, None)
    lines = message.text.split("\n")
    assert len(lines) == 3
    assert all(line.isprintable() for line in lines)


def test_secrets_of_channels_reach_their_jobs_as_references() -> None:
    message = message_of(a_digest(), {}, None)
    hook = new_channel("h", "webhook", url="https://x.example/y", secret="${secret.SIGN}")
    assert decode_channel(encode_channel(hook)) == hook
    assert job_of(hook, message) == (
        "http",
        {
            "method": "POST",
            "url": "https://x.example/y",
            "json": message.body,
            "secrets": {"auth.hmac.secret": "${secret.SIGN}"},
        },
    )
    slack = new_channel("s", "slack", url="${secret.SLACK_URL}")
    assert job_of(slack, message) == (
        "http",
        {"method": "POST", "json": {"text": message.markup}, "secrets": {"url": "${secret.SLACK_URL}"}},
    )
    mail = new_channel("m", "smtp", host="mx.example", sender="a@b", to="c@d", user="u", password="${secret.P}")
    assert isinstance(mail, Mail)
    assert job_of(mail, message) == (
        "smtp",
        {
            "host": "mx.example",
            "port": 587,
            "tls": "starttls",
            "sender": "a@b",
            "to": ("c@d",),
            "user": "u",
            "subject": message.subject,
            "text": message.text,
            "secrets": {"password": "${secret.P}"},
        },
    )


def test_the_first_case_is_told_at_once_and_a_storm_in_one_message_for_each_window() -> None:
    notification, watch = new_notification("n", "failed", "ops"), new_watch(NOW)
    told: list[AlertDigest] = []
    for second in range(600):
        now = NOW + timedelta(seconds=second)
        watch, digest = judged(notification, watch, [AlertCase(f"{second}-{n}") for n in range(100)], now)
        told += [digest] if digest else []
        watch = decode_watch(encode_watch(watch))
    assert [digest.count for digest in told] == [100, 30_000]
    assert [len(digest.examples) for digest in told] == [5, 5]
    assert told[1].first_at == NOW + timedelta(seconds=1)
    watch, digest = judged(notification, watch, [], NOW + timedelta(minutes=20))
    assert digest is not None
    assert digest.count == 29_900
    assert judged(notification, watch, [], NOW + timedelta(minutes=40))[1] is None


def test_a_case_that_lasts_is_told_once_and_again_when_it_comes_back() -> None:
    watch, one, two = new_watch(NOW), AlertCase("a"), AlertCase("b")
    fresh, watch = lasting(watch, [one])
    assert fresh == [one]
    fresh, watch = lasting(watch, [one, two])
    assert fresh == [two]
    fresh, watch = lasting(watch, [])
    fresh, watch = lasting(watch, [two])
    assert fresh == [two]
    _, watch = lasting(watch, [AlertCase(str(n)) for n in range(5000)])
    assert len(watch.known) == KNOWN_LIMIT


def test_a_job_that_was_told_while_it_ran_is_not_told_when_it_ends() -> None:
    watch, one, two = new_watch(NOW), AlertCase("a"), AlertCase("b")
    fresh, watch = under_way(watch, [one], [], set())
    assert fresh == [one]
    fresh, watch = under_way(watch, [], [], set())  # it waits for a retry, and is neither here nor there
    assert (fresh, watch.known) == ([], ("a",))
    fresh, watch = under_way(watch, [], [one, two], {"a", "b"})
    assert (fresh, watch.known) == ([two], ())
