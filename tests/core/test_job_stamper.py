"""Job limits from the options of a decorator, the arguments and the options of the call."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tickwork.core.ids import JobId
from tickwork.core.job import NewJob, Policy, TaskDefinition
from tickwork.core.job_options import Options
from tickwork.core.job_stamper import declared_rules, stamp_of
from tickwork.core.limits.breaker import breaker
from tickwork.core.limits.debounce import debounce, throttle
from tickwork.core.limits.job_limits import JobLimits, LimitUse
from tickwork.core.limits.limits import Concurrency, concurrency, rate, read_limits, sequence
from tickwork.core.limits.task_limits import (
    DECLARED,
    NO_LIMITS,
    TaskLimits,
    decode_task_limits,
    encode_task_limits,
    read_task_limits,
)
from tickwork.core.placement import spot_of
from tickwork.core.recurrence.interval import every
from tickwork.core.schedule.spec import new_spec, template
from tickwork.errors import InvalidArguments, InvalidInput, InvalidOption

PARAMETERS = ("account", "size", "order")
ACCOUNT = concurrency(2, key="account")


def said(**given: Any) -> TaskLimits:
    """The options of a decorator."""
    return read_task_limits("sync", PARAMETERS, given)


def stamped(job_limits: TaskLimits, arguments: dict[str, Any] | None = None, **options: Any) -> NewJob:
    """A job of the task with these arguments and options."""
    given = Options().updated(options)
    stamp = given.stamp("sync", job_limits)
    return given.new_jobs("sync", [(JobId("1"), msgspec.json.encode(arguments or {}))], stamp)[0]


def slots(
    job_limits: TaskLimits, arguments: dict[str, Any] | None = None, **options: Any
) -> list[tuple[str, str, int]]:
    found = stamped(job_limits, arguments, **options).job_limits
    return [] if found is None else [tuple(use) for use in found.uses]


class TestSlots:
    def test_a_limit_takes_its_key_and_weight_from_the_arguments(self) -> None:
        job_limits = said(limits=[ACCOUNT, concurrency(10, name="memory", weight="size"), rate("10/s")])
        assert slots(job_limits, {"account": 7, "size": 3}) == [
            ("task:sync#1", "7", 1),
            ("memory", "", 3),
            ("task:sync#3", "", 1),
        ]

    def test_a_breaker_is_one_more_slot(self) -> None:
        assert slots(said(breaker=breaker(key="order.shop")), {"order": {"shop": "x"}}) == [
            ("task:sync#breaker", "x", 1)
        ]

    def test_shared_limits_are_named_and_a_sequence_is_the_last(self) -> None:
        job_limits = said(limits=[ACCOUNT], limit=["stripe", "mail"], sequence="account")
        assert [name for name, _, _ in slots(job_limits, {"account": "a"})] == [
            "task:sync#1",
            "stripe",
            "mail",
            "task:sync#sequence",
        ]
        assert slots(said(limit="stripe")) == [("stripe", "", 1)]

    def test_a_sequence_may_let_others_pass_a_retry(self) -> None:
        job_limits = said(sequence=sequence("account", on_retry="pass"))
        (limit,) = job_limits.limits
        assert limit == Concurrency(
            capacity=1, name="task:sync#sequence", key="account", in_order=True, on_retry="pass"
        )

    def test_a_job_of_a_sequence_is_marked_as_one(self) -> None:
        found = [
            stamped(job_limits, {"account": 1}).job_limits
            for job_limits in (said(sequence="account"), said(limits=[ACCOUNT]))
        ]
        assert [job_limits is not None and job_limits.sequence for job_limits in found] == [True, False]

    def test_a_job_that_sticks_has_the_spot_of_its_key(self) -> None:
        found = [stamped(said(sticky=key), {"account": "acme"}).job_limits for key in ("account", "order.shop")]
        assert found == [JobLimits(spot=spot_of("acme")), JobLimits(spot=spot_of("null"))]

    def test_defaults_count_where_arguments_are_not_given(self) -> None:
        job_limits = msgspec.structs.replace(said(limits=[ACCOUNT]), defaults={"account": "house"})
        assert slots(job_limits) == [("task:sync#1", "house", 1)]
        assert slots(job_limits, {"account": "a"}) == [("task:sync#1", "a", 1)]

    def test_tenants_and_labels_are_keys_too(self) -> None:
        job_limits = said(limits=[concurrency(1, key="tenant"), concurrency(1, key="label:region")])
        found = slots(job_limits, tenant="acme", labels=["region:eu"])
        assert [key for _, key, _ in found] == ["acme", "eu"]

    def test_limits_of_a_queue_count_for_jobs_that_go_there(self) -> None:
        job_limits = TaskLimits(queues={"mail": read_limits("queue:mail", [concurrency(5)])})
        assert slots(job_limits) == []
        assert slots(job_limits, queue="mail") == [("queue:mail#1", "", 1)]

    def test_a_job_passes_a_limit_once_though_its_task_and_its_queue_name_it(self) -> None:
        job_limits = msgspec.structs.replace(
            said(limit="stripe"), queues={"mail": read_limits("queue:mail", ["stripe", concurrency(5)])}
        )
        assert [name for name, _, _ in slots(job_limits, queue="mail")] == ["stripe", "queue:mail#2"]

    def test_a_job_that_could_never_start_is_refused(self) -> None:
        with pytest.raises(InvalidArguments, match="could never start, and was not stored"):
            stamped(said(limits=[concurrency(2, weight="size")]), {"size": 3})


class TestPlainJobs:
    def test_a_task_that_says_nothing_has_no_stamp(self) -> None:
        assert Options().stamp("sync", NO_LIMITS) is None
        assert stamped(NO_LIMITS).job_limits is None

    def test_limits_of_another_queue_make_none(self) -> None:
        assert stamp_of("sync", TaskLimits(queues={"mail": (concurrency(1),)}), queue="default", tenant=None) is None

    def test_a_tenant_or_needs_make_one(self) -> None:
        assert stamped(NO_LIMITS, tenant="acme").job_limits == JobLimits(tenant="acme")
        assert stamped(NO_LIMITS, needs={"gpu": True, "mem": "8GB"}).job_limits == JobLimits(needs="gpu mem=8000000000")
        assert stamped(NO_LIMITS, needs={}).job_limits is None


class TestHabits:
    def test_a_debounced_job_replaces_the_one_before(self) -> None:
        job = stamped(said(debounce=debounce("5s", key="account")), {"account": 7})
        assert (job.key, job.if_exists, job.delay) == ("debounce:sync:7", "follow", timedelta(seconds=5))
        assert job.job_limits == JobLimits((LimitUse("task:sync#debounce", "7", 1),), sequence=True)

    def test_a_throttled_job_keeps_its_key_and_its_other_rules(self) -> None:
        job = stamped(said(throttle="1m", limits=[ACCOUNT]), {"account": 7}, retries=9)
        assert (job.key, job.if_exists, job.delay) == ("throttle:sync:", "return", None)
        assert (job.policy.key_for, job.policy.retry.retries) == (timedelta(minutes=1), 9)
        assert job.job_limits == JobLimits(uses=(LimitUse("task:sync#1", "7", 1),))

    @pytest.mark.parametrize("option", [{"key": "x"}, {"delay": "1s"}, {"if_exists": "replace"}])
    def test_options_that_contradict_a_habit_are_refused(self, option: dict[str, Any]) -> None:
        with pytest.raises(InvalidOption, match=f"is debounced, which says what {next(iter(option))} is: leave"):
            stamped(said(debounce="5s"), **option)

    def test_a_throttled_job_may_be_delayed(self) -> None:
        assert stamped(said(throttle="5s"), delay="1s").delay == timedelta(seconds=1)


class TestSchedules:
    def test_jobs_of_a_schedule_have_the_same_stamp_but_no_key_of_a_habit(self) -> None:
        job_limits = msgspec.structs.replace(said(limits=[ACCOUNT], throttle="1m"), defaults={"account": "house"})
        definition = TaskDefinition("sync", "default", 5, Policy(), b"{}", encode_task_limits(job_limits))
        spec = new_spec("nightly", "sync", every("1h"), tenant="acme", needs={"gpu": True})
        job = template(spec, definition)
        assert job.job_limits == JobLimits(uses=(LimitUse("task:sync#1", "house", 1),), tenant="acme", needs="gpu")
        assert (job.key, job.policy.key_for) == (None, None)


class TestStored:
    @given(st.none() | st.text(min_size=1, max_size=9), st.integers(1, 9), st.booleans(), st.booleans())
    def test_what_is_stored_comes_back(self, tenant: str | None, n: int, breaks: bool, waits: bool) -> None:
        job_limits = TaskLimits(
            limits=said(limits=[concurrency(n, key="account")], limit="stripe", sequence="size").limits,
            breaker=breaker(failures=n) if breaks else None,
            merging=debounce("5s") if waits else throttle("1m"),
            queues={"mail": read_limits("queue:mail", [rate("10/s")])},
            defaults={"account": None, "size": n},
            tenant=tenant,
            needs="gpu",
        )
        assert decode_task_limits(encode_task_limits(job_limits)) == job_limits

    def test_nothing_is_stored_of_a_task_that_says_nothing(self) -> None:
        assert encode_task_limits(NO_LIMITS) is None
        assert decode_task_limits(None) is NO_LIMITS

    def test_what_cannot_be_read_is_refused(self) -> None:
        with pytest.raises(InvalidInput, match="stored limits cannot be read"):
            decode_task_limits('{"version": 1, "job_limits": {"novelty": 1}}')

    def test_callers_by_name_have_the_tenant_and_needs_of_the_task(self) -> None:
        job_limits = encode_task_limits(TaskLimits(tenant="acme", needs="gpu"))
        options = Options.of_task("sync", TaskDefinition("sync", "default", 5, Policy(), b"{}", job_limits))
        assert (options.tenant, options.needs) == ("acme", "gpu")

    def test_a_worker_declares_limits_breakers_and_limits_of_queues_but_none_of_others(self) -> None:
        job_limits = msgspec.structs.replace(
            said(limits=[ACCOUNT], limit="stripe", breaker=breaker()),
            queues={"mail": read_limits("queue:mail", [rate("10/s")])},
        )
        plain = TaskDefinition("add", "default", 5, Policy(), b"{}")
        rules = declared_rules(
            [plain, TaskDefinition("sync", "default", 5, Policy(), b"{}", encode_task_limits(job_limits))]
        )
        assert rules == {
            "task:sync#1": job_limits.limits[0],
            "queue:mail#1": job_limits.queues["mail"][0],
            "task:sync#breaker": breaker(),
        }


class TestRefusals:
    @pytest.mark.parametrize(
        ("given", "message"),
        [
            (
                {"limits": [concurrency(1, key="acount")]},
                "'acount' is no parameter of the task; did you mean 'account'",
            ),
            ({"limits": concurrency(1)}, "limits of task:sync must be a list such as"),
            ({"limits": "stripe"}, "limits of task:sync must be a list such as"),
            ({"limits": [7]}, "7 is no limit"),
            ({"limit": 7}, "limit of task:sync is the name of a limit, or a list of names, not 7"),
            ({"limit": "a", "limits": [concurrency(1, name="a")]}, "name 'a' twice"),
            ({"sequence": concurrency(1)}, "sequence of task:sync is a key such as"),
            ({"sequence": "nobody"}, "'nobody' is no parameter of the task; there are: account, size, order"),
            (
                {"sticky": "acount"},
                "sticky of task 'sync': 'acount' is no parameter of the task; did you mean 'account'",
            ),
            ({"sticky": 7}, "sticky of task 'sync'"),
            ({"breaker": 50}, "breaker of task 'sync' must be breaker"),
            ({"breaker": breaker(key="acount")}, "breaker of task 'sync': 'acount' is no parameter"),
            ({"debounce": 5}, "debounce of task 'sync' must be debounce"),
            ({"debounce": throttle("5s")}, "debounce of task 'sync' must be debounce"),
            ({"throttle": throttle("5s", key="acount")}, "throttle of task 'sync': 'acount' is no parameter"),
            ({"debounce": "5s", "throttle": "5s"}, "debounced or throttled, not both"),
        ],
    )
    def test_they_say_what_to_do(self, given: dict[str, Any], message: str) -> None:
        with pytest.raises(InvalidOption, match=message):
            said(**given)

    @pytest.mark.parametrize("name", DECLARED)
    def test_what_a_decorator_says_cannot_be_said_of_a_job(self, name: str) -> None:
        with pytest.raises(InvalidOption, match=f"{name} is set where the task is declared.*@app.task\\({name}="):
            Options().updated({name: 1})
