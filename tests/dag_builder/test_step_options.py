"""A step has the options of its task, and some of its own."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.dag_builder.writing import Made, is_there, look, refusal, tell
from tickwork import InvalidDag, Tickwork, approve, branch, concurrency, debounce, group, if_, loop, rate, teardown
from tickwork.core.limits.task_limits import decode_task_limits
from tickwork.errors import InvalidOption


def test_a_step_has_the_options_of_its_task_and_its_own_over_them(made: Made) -> None:
    other = Tickwork()

    @other.task(queue="mail", retries=7, timeout="5s", labels=["red"], needs={"gpu": True}, limits=[concurrency(2)])
    def send(to: str) -> None: ...

    def etl() -> None:
        send("a")
        send.options(queue="slow", retries=0, priority="high", tenant="acme", expires="1h")("b")

    first, second = (step.job for step in made(etl).graph.steps)
    assert first is not None
    assert second is not None
    assert (first.task, first.queue, first.priority, first.tenant, first.needs) == ("send", "mail", None, None, "gpu")
    assert (first.policy.retry.retries, first.policy.timeout) == (7, timedelta(seconds=5))
    assert (first.labels, decode_task_limits(first.task_limits)) == (("red",), send.task_limits)
    assert (second.queue, second.priority, second.tenant, second.task_limits) == ("slow", 2, "acme", first.task_limits)
    assert (second.policy.retry.retries, second.policy.expires) == (0, timedelta(hours=1))


def test_a_task_without_options_is_a_plain_template(made: Made) -> None:
    (step,) = made(lambda: tell("x")).graph.steps
    assert step.job is not None
    assert (step.job.queue, step.job.priority, step.job.task_limits, step.job.policy.timeout) == (
        "default",
        None,
        None,
        None,
    )


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"delay": "5s"}, "a step of a dag has no delay=, and task 'tell' has one here"),
        ({"key": "x"}, "a step of a dag has no key="),
        ({"expires": datetime(2030, 1, 1, tzinfo=UTC)}, "task 'tell' expires at an instant"),
        ({"run_if": "any_fialed"}, "there is no run_if='any_fialed'; did you mean 'any_failed'?"),
        ({"name": ""}, "the name of a step must be a printable text"),
        ({"max_parallel": 0}, "max_parallel must be a whole number from 1"),
        ({"may_fail": "yes"}, "may_fail is True or False, not 'yes'"),
        ({"produce": 5}, "produce is the name of an asset, or a list of names, not 5"),
        ({"rertries": 5}, "there is no option 'rertries'; did you mean 'retries'?"),
        ({"limits": [rate("1/s")]}, "limits is set where the task is declared"),
    ],
)
def test_an_option_that_a_step_cannot_have_is_refused(made: Made, options: dict[str, Any], said: str) -> None:
    assert said in refusal(made(lambda: tell.options(**options)("x")), InvalidOption)


def test_an_option_is_the_same_for_all_runs(made: Made) -> None:
    def in_a_text(day: str) -> None:
        tell.options(queue=f"q-{day}")("x")

    def alone(day: str) -> None:
        tell.options(queue=day)("x")

    assert "queue has a reference in it. Options are the same for all runs" in refusal(made(in_a_text), InvalidOption)
    assert "queue must be a printable text" in refusal(made(alone), InvalidOption)


def test_a_debounced_task_is_no_step(made: Made) -> None:
    other = Tickwork()

    @other.task(debounce=debounce("5s"))
    def reindex() -> None: ...

    assert "task 'reindex' is debounced or throttled" in refusal(made(lambda: [reindex()]), InvalidOption)


@pytest.mark.parametrize("options", [{"run_if": "always"}, {"name": "x"}, {"max_parallel": 3}])
def test_options_of_a_step_are_refused_for_a_job(options: dict[str, Any]) -> None:
    with pytest.raises(InvalidOption, match=f"{next(iter(options))} is an option of a step of a dag"):
        tell.options(**options).enqueue("x")
    with pytest.raises(InvalidOption, match="until is an option of a step of a dag"):
        is_there.until(every="1s").enqueue("x")


def test_a_task_with_options_is_called_only_inside_of_a_dag() -> None:
    with pytest.raises(InvalidDag, match=r"To make a job: tell\.options\(\.\.\.\)\.enqueue"):
        tell.options(priority="high")("x")


@pytest.mark.parametrize(
    "use",
    [
        lambda: tell.map(["x"]),
        lambda: if_(True),
        lambda: branch(1, {}),
        lambda: approve("x"),
        lambda: loop(look, 1, until=bool),
    ],
)
def test_what_belongs_into_a_dag_is_refused_outside(use: Callable[[], Any]) -> None:
    with pytest.raises(InvalidDag, match=r"belongs inside of a function with @app\.dag"):
        use()
    for block in (group("x"), teardown(None)):
        with pytest.raises(InvalidDag, match=r"belongs inside of a function with @app\.dag"), block:
            pass
