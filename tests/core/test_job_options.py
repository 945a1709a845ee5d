"""The options of a job: both the decorator and `.options(...)` refuse the same things with the same words."""

from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest

from tickwork.core.ids import JobId
from tickwork.core.job import NewJob
from tickwork.core.job_options import Options, exception_names, matches
from tickwork.errors import InvalidOption

NOON = datetime(2026, 11, 15, 12, tzinfo=UTC)


def job_with(**options: Any) -> NewJob:
    return Options().updated(options).new_jobs("task", [(JobId("1"), b"{}")])[0]


def test_without_options_a_job_has_the_documented_defaults() -> None:
    job = job_with()
    assert (job.queue, job.priority, job.delay, job.at, job.key) == ("default", 5, None, None, None)
    assert (job.policy.retry.retries, job.policy.retry.base) == (3, timedelta(seconds=1))
    assert (job.policy.timeout, job.policy.on_lost) == (None, "retry")


@pytest.mark.parametrize(
    ("option", "value", "field", "stored"),
    [
        ("queue", "mail", "queue", "mail"),
        ("priority", "high", "priority", 2),
        ("priority", "normal", "priority", 5),
        ("priority", "low", "priority", 8),
        ("priority", 0, "priority", 0),
        ("priority", 9, "priority", 9),
        ("delay", "5m", "delay", timedelta(minutes=5)),
        ("delay", timedelta(0), "delay", timedelta(0)),
        ("at", NOON, "at", NOON),
        ("key", "order:1", "key", "order:1"),
        ("collection", "import", "collection", "import"),
        ("labels", ["a", "b"], "labels", ("a", "b")),
        ("parent", "42", "parent", "42"),
        ("parent", NewJob(JobId("42"), "task", b""), "parent", "42"),
        ("trace", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", "trace", None),
        ("expires", NOON, "expires_at", NOON),
    ],
)
def test_an_option_becomes_part_of_the_job(option: str, value: object, field: str, stored: object) -> None:
    assert getattr(job_with(**{option: value}), field) == (value if stored is None else stored)


@pytest.mark.parametrize(
    ("option", "value", "field", "stored"),
    [
        ("timeout", "30s", "timeout", timedelta(seconds=30)),
        ("expires", "1h", "expires", timedelta(hours=1)),
        ("on_lost", "fail", "on_lost", "fail"),
        ("retry_on", ConnectionError, "retry_on", ("builtins.ConnectionError",)),
        ("retry_on", (ConnectionError, OSError), "retry_on", ("builtins.ConnectionError", "builtins.OSError")),
        ("give_up_on", [ValueError], "give_up_on", ("builtins.ValueError",)),
    ],
)
def test_a_rule_goes_with_the_job_as_its_policy(option: str, value: object, field: str, stored: object) -> None:
    assert getattr(job_with(**{option: value}).policy, field) == stored


def test_retries_and_backoff_become_the_retry_policy() -> None:
    retry = job_with(retries=7, backoff="100ms").policy.retry
    assert (retry.retries, retry.base) == (7, timedelta(milliseconds=100))


@pytest.mark.parametrize(
    ("option", "value", "said"),
    [
        ("queue", "", "queue must be a printable text"),
        ("queue", "a\0b", "queue must be a printable text"),
        ("queue", "\ud800", "queue must be a printable text"),
        ("queue", "x" * 201, "1 to 200 characters"),
        ("key", 7, "key must be a printable text"),
        ("collection", "line\nbreak", "collection must be a printable text"),
        ("trace", b"00", "trace must be a printable text"),
        ("parent", object(), "parent must be a printable text"),
        ("priority", "urgent", "'high', 'normal', 'low' or a number from 0 (most urgent) to 9, not 'urgent'"),
        ("priority", 10, "priority must be one of"),
        ("priority", -1, "priority must be one of"),
        ("priority", True, "priority must be one of"),
        ("priority", 2.5, "priority must be one of"),
        ("delay", "-5s", "delay: '-5s' is negative"),
        ("delay", timedelta(seconds=-1), "is negative"),
        ("delay", "5 parsecs", "delay: '5 parsecs' is not a duration"),
        ("delay", 5, "delay: 5 of what?"),
        ("at", datetime(2026, 1, 1), "without a zone"),  # noqa: DTZ001
        ("at", "2026-01-01", "at must be a datetime with a zone"),
        ("expires", datetime(2026, 1, 1), "without a zone"),  # noqa: DTZ001
        ("expires", "tomorrow", "expires: 'tomorrow' is not a duration"),
        ("timeout", "soon", "timeout: 'soon' is not a duration"),
        ("key_for", "-1h", "key_for: '-1h' is negative"),
        ("if_exists", True, "if_exists must be 'return', 'replace' or 'error'"),
        ("retries", -1, "retries must be a whole number"),
        ("retries", 1.5, "retries must be a whole number"),
        ("retries", True, "retries must be a whole number"),
        ("retries", float("nan"), "retries must be a whole number"),
        ("backoff", "2 sec", "backoff: '2 sec' is not a duration"),
        ("retry_on", "ConnectionError", "retry_on takes exception types"),
        ("retry_on", [ConnectionError, 3], "retry_on takes exception types, like ConnectionError; it was given 3"),
        ("give_up_on", int, "give_up_on takes exception types"),
        ("on_lost", "ignore", "on_lost must be 'retry' or 'fail'"),
        ("labels", "one", "labels must be a list of texts"),
        ("labels", ["ok", ""], "labels must be a printable text"),
        ("labels", ["x"] * 33, "a job may have 32 labels, not 33"),
    ],
)
def test_a_value_that_an_option_cannot_take_is_refused_by_name(option: str, value: object, said: str) -> None:
    with pytest.raises(InvalidOption) as refused:
        job_with(**{option: value})
    assert said in str(refused.value)


@pytest.mark.parametrize(
    ("wrong", "nearest"),
    [("retrys", "retries"), ("que", "queue"), ("time_out", "timeout"), ("prio", "priority"), ("lables", "labels")],
)
def test_an_unknown_option_names_the_nearest_one(wrong: str, nearest: str) -> None:
    with pytest.raises(InvalidOption, match=f"there is no option '{wrong}'; did you mean '{nearest}'?"):
        job_with(**{wrong: 1})


def test_an_option_that_is_like_no_other_lists_them_all() -> None:
    with pytest.raises(InvalidOption, match=r"there is no option 'xyzzy'; the options are queue, priority, .*, tx"):
        job_with(xyzzy=1)


def test_a_job_is_due_after_a_delay_or_at_a_time_but_not_both() -> None:
    with pytest.raises(InvalidOption, match="give one of them"):
        job_with(delay="5m", at=NOON)


def test_a_later_delay_takes_the_place_of_an_earlier_time() -> None:
    job = Options().updated({"at": NOON}).updated({"delay": "5m"}).new_jobs("task", [(JobId("1"), b"{}")])[0]
    assert (job.at, job.delay) == (None, timedelta(minutes=5))


def test_none_unsets_what_the_decorator_said() -> None:
    assert Options().updated({"timeout": "5s"}).updated({"timeout": None}).policy().timeout is None


@pytest.mark.parametrize("given", [{"if_exists": "replace"}, {"key_for": "1h"}])
def test_what_is_about_a_key_needs_one(given: dict[str, Any]) -> None:
    with pytest.raises(InvalidOption, match="give key= as well"):
        job_with(**given)


def test_a_task_may_say_how_its_keys_behave_before_any_key_is_known() -> None:
    defaults = Options().updated({"key_for": "1h", "if_exists": "replace"})
    job = defaults.updated({"key": "order:1"}).new_jobs("task", [(JobId("1"), b"{}")])[0]
    assert (job.key, job.if_exists, job.policy.key_for) == ("order:1", "replace", timedelta(hours=1))


def test_an_instant_of_any_zone_is_taken() -> None:
    there = datetime(2026, 1, 1, tzinfo=timezone(timedelta(hours=5, minutes=45)))
    assert job_with(at=there).at == there


# -- exception types are stored by name


class Refused(Exception): ...


class Declined(Refused): ...


def test_an_exception_matches_its_own_type_and_its_bases() -> None:
    assert matches(Declined(), exception_names("retry_on", Declined))
    assert matches(Declined(), exception_names("retry_on", Refused))
    assert matches(ConnectionResetError(), exception_names("retry_on", OSError))
    assert not matches(Refused(), exception_names("retry_on", Declined))
    assert not matches(ValueError(), exception_names("retry_on", (OSError, KeyError)))


def test_a_type_is_the_same_whether_its_file_is_imported_run_or_loaded_by_path() -> None:
    module = __name__.rpartition(".")[2]
    for name in ("Refused", f"{module}.Refused", f"shop.{__name__}.Refused"):
        assert matches(Refused(), (name,))
    for name in (f"other.{module}x.Refused", "NotRefused", "efused"):
        assert not matches(Refused(), (name,))


@pytest.mark.parametrize(
    ("option", "value", "said"),
    [
        ("timeout", "0s", "Leave it out for no limit"),
        ("queue", "mail:3", "has a colon"),
        ("labels", {"team": "mail"}, "must be a list of texts"),
    ],
)
def test_what_would_surprise_later_is_refused_at_once(option: str, value: object, said: str) -> None:
    with pytest.raises(InvalidOption, match=said):
        Options().updated({option: value})
