"""One place decides what becomes of a job: what is charged, what is tried again, and what is final."""

from datetime import timedelta
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tickwork.core.job import MAX_LOST, AttemptState, JobState, Policy
from tickwork.core.outcome import (
    CRASH_BUDGET,
    ERROR_LIMIT,
    Abandoned,
    Cancelled,
    Crashed,
    Ending,
    Failed,
    JobCounts,
    Released,
    Snoozed,
    Succeeded,
    TimedOut,
    Transition,
    decide,
)
from tickwork.core.retry import RetryPolicy

ONCE_AGAIN = Policy(retry=RetryPolicy(retries=1))
MUST_NOT_RUN_TWICE = Policy(on_lost="fail")
TEN_MINUTES = timedelta(minutes=10)


def after(ending: Ending, policy: Policy = ONCE_AGAIN, failures=0, crashes=0, *, alone=False, losses=0) -> Transition:
    return decide(JobCounts(policy, failures, crashes, alone, losses), ending, Random(1))


def test_a_success_ends_the_job_with_its_result():
    end = after(Succeeded(b"42"), failures=1)
    assert (end.attempt, end.job, end.result) == (AttemptState.SUCCEEDED, JobState.SUCCEEDED, b"42")
    assert end.failures == 1
    assert end.delay is None


@pytest.mark.parametrize(
    ("ending", "attempt"), [(Failed("no"), AttemptState.FAILED), (TimedOut("late"), AttemptState.TIMED_OUT)]
)
def test_a_failure_is_charged_and_retried_after_a_delay(ending, attempt):
    end = after(ending)
    assert (end.attempt, end.job, end.failures) == (attempt, JobState.QUEUED, 1)
    assert end.delay is not None
    assert end.delay > timedelta(0)
    assert end.error == ending.error


@pytest.mark.parametrize("ending", [Failed("no"), TimedOut("late")])
def test_the_failure_after_the_last_retry_is_final(ending):
    end = after(ending, failures=1)
    assert (end.job, end.failures, end.delay) == (JobState.FAILED, 2, None)


def test_a_fatal_failure_is_final_although_retries_are_left():
    end = after(Failed("hopeless", fatal=True))
    assert (end.job, end.failures) == (JobState.FAILED, 1)


def test_a_failure_that_asks_for_its_own_delay_gets_it():
    assert after(Failed("later", after=TEN_MINUTES)).delay == TEN_MINUTES


def test_asking_for_a_delay_does_not_buy_more_retries():
    assert after(Failed("later", after=TEN_MINUTES), failures=1).job is JobState.FAILED


@pytest.mark.parametrize("result", [b"null", b"false", b"0", b"0.0", b'""', b"[]", b"{}"])
def test_a_job_that_waits_for_a_true_result_runs_again_after_a_false_one(result):
    end = after(Succeeded(result), Policy(again_every=TEN_MINUTES), failures=1, crashes=2)
    assert (end.attempt, end.job, end.delay) == (AttemptState.RELEASED, JobState.QUEUED, TEN_MINUTES)
    assert (end.failures, end.crashes, end.result) == (1, 2, None)


@pytest.mark.parametrize("result", [b"true", b"1", b'"0"', b"[0]", b'{"ready":false}'])
def test_a_job_that_waits_for_a_true_result_ends_with_it(result):
    end = after(Succeeded(result), Policy(again_every=TEN_MINUTES))
    assert (end.job, end.result, end.delay) == (JobState.SUCCEEDED, result, None)


def test_a_job_that_waits_for_a_true_result_can_fail():
    end = after(Failed("hopeless", fatal=True), Policy(again_every=TEN_MINUTES))
    assert end.job is JobState.FAILED


@pytest.mark.parametrize(("ending", "delay"), [(Snoozed(TEN_MINUTES), TEN_MINUTES), (Released(), timedelta(0))])
def test_what_was_snoozed_or_given_back_is_not_charged(ending, delay):
    end = after(ending, failures=1, crashes=2)
    assert (end.attempt, end.job, end.delay) == (AttemptState.RELEASED, JobState.QUEUED, delay)
    assert (end.failures, end.crashes) == (1, 2)


def test_a_job_that_may_begin_only_once_is_not_given_back_after_it_began():
    end = after(Released(begun=True), Policy(on_lost="fail"), failures=1)
    assert (end.attempt, end.job, end.failures) == (AttemptState.LOST, JobState.FAILED, 1)
    assert "had to stop it while it ran" in str(end.error)
    assert after(Released(begun=False), Policy(on_lost="fail")).job is JobState.QUEUED
    assert after(Released(begun=True)).job is JobState.QUEUED


def test_its_own_failures_follow_its_retries():
    policy = Policy(on_lost="fail", retry=RetryPolicy(retries=1))
    assert [after(Failed("x"), policy, failures).job for failures in (0, 1)] == [JobState.QUEUED, JobState.FAILED]
    assert after(Snoozed(TEN_MINUTES), policy).job is JobState.QUEUED


def test_a_cancelled_attempt_ends_the_job_as_cancelled():
    end = after(Cancelled("not wanted"))
    assert (end.attempt, end.job, end.error) == (AttemptState.CANCELLED, JobState.CANCELLED, "not wanted")


def test_a_job_whose_worker_went_silent_is_queued_again_uncharged():
    end = after(Abandoned(), failures=1, crashes=1)
    assert (end.attempt, end.job, end.delay) == (AttemptState.LOST, JobState.QUEUED, timedelta(0))
    assert (end.failures, end.crashes, end.alone) == (1, 1, False)


def test_lost_attempts_are_counted_as_long_as_they_follow_each_other():
    assert [after(Abandoned(), losses=losses).losses for losses in (0, 1, 2)] == [1, 2, 3]
    for ending in (Snoozed(TEN_MINUTES), Failed("it broke"), TimedOut("too long")):
        assert after(ending, losses=2).losses == 0


@pytest.mark.parametrize("ending", [Released(), Crashed("killed", alone=False), Crashed("killed", alone=True)])
def test_what_says_nothing_of_the_worker_leaves_the_count_of_losses(ending):
    assert after(ending, losses=2).losses == 2


def test_a_job_that_is_lost_again_while_it_ran_alone_in_its_worker_has_failed():
    end = after(Abandoned("silence", begun=True), failures=1, losses=3)
    assert (end.attempt, end.job, end.losses, end.failures) == (AttemptState.LOST, JobState.FAILED, 4, 1)
    assert end.error == ("its worker died 4 times in a row while running it, the last time with no other job: silence")


def test_it_is_not_blamed_before_its_handler_has_begun_there():
    end = after(Abandoned(begun=False), losses=3)
    assert (end.job, end.delay, end.losses) == (JobState.QUEUED, timedelta(0), 3)


@pytest.mark.parametrize(("max_lost", "losses", "state"), [(1, 1, "failed"), (5, 4, "queued"), (None, 99, "queued")])
def test_the_bound_of_losses_is_an_option(max_lost, losses, state):
    end = after(Abandoned(begun=True), Policy(max_lost=max_lost), losses=losses)
    assert (end.job, end.losses) == (state, losses + 1)


def test_a_job_that_died_beside_others_is_not_blamed_but_runs_alone_next():
    end = after(Crashed("killed", alone=False))
    assert (end.attempt, end.job) == (AttemptState.LOST, JobState.QUEUED)
    assert (end.failures, end.crashes, end.alone) == (0, 0, True)


def test_a_job_that_died_alone_is_charged_a_crash_and_no_failure():
    end = after(Crashed("killed", alone=True))
    assert (end.job, end.failures, end.crashes, end.alone) == (JobState.QUEUED, 0, 1, True)


def test_the_third_crash_alone_ends_the_job_as_crashed():
    end = after(Crashed("killed by SIGKILL", alone=True), crashes=CRASH_BUDGET - 1)
    assert (end.attempt, end.job, end.crashes) == (AttemptState.LOST, JobState.FAILED, 3)
    assert end.error is not None
    assert end.error.startswith("crashed: killed by SIGKILL")


@pytest.mark.parametrize("ending", [Abandoned(), Crashed("killed", alone=False), Crashed("killed", alone=True)])
def test_a_job_that_must_not_run_twice_fails_when_its_attempt_is_lost(ending):
    end = after(ending, MUST_NOT_RUN_TWICE)
    assert (end.attempt, end.job, end.delay) == (AttemptState.LOST, JobState.FAILED, None)


@pytest.mark.parametrize("ending", [Failed("no"), TimedOut("late"), Snoozed(TEN_MINUTES), Released(), Abandoned()])
def test_a_suspect_stays_apart_until_it_ends(ending):
    assert after(ending, alone=True).alone


def test_an_error_that_is_too_long_keeps_both_its_ends():
    error = after(Failed(f"top {'x' * ERROR_LIMIT} bottom")).error
    assert error is not None
    assert error.startswith("top x")
    assert error.endswith("x bottom")
    assert len(error) < ERROR_LIMIT + 100


texts = st.text(max_size=20)
durations = st.timedeltas(timedelta(0), timedelta(days=1))
endings = st.one_of(
    st.builds(Succeeded, st.just(b"null")),
    st.builds(Failed, texts, st.booleans(), st.none() | durations),
    st.builds(TimedOut, texts),
    st.builds(Snoozed, durations),
    st.builds(Cancelled, texts),
    st.just(Released()),
    st.builds(Crashed, texts, st.booleans()),
    st.builds(Abandoned, texts, st.booleans()),
)


@given(ending=endings, retries=st.integers(0, 3), failures=st.integers(0, 3), crashes=st.integers(0, 2))
def test_every_ending_either_queues_the_job_again_with_a_time_or_ends_it(ending, retries, failures, crashes):
    end = after(ending, Policy(retry=RetryPolicy(retries=retries)), failures, crashes)
    assert (end.job is JobState.QUEUED) == (end.delay is not None)
    assert (end.job is JobState.QUEUED) != end.job.ended
    assert (end.result is not None) == (end.job is JobState.SUCCEEDED)
    assert failures <= end.failures <= failures + 1
    assert crashes <= end.crashes <= crashes + 1
    assert end.attempt is not AttemptState.RUNNING


@given(endings=st.lists(endings, max_size=60), retries=st.integers(0, 4), seed=st.integers())
def test_no_history_has_more_failures_or_crashes_than_allowed(endings, retries, seed):
    policy, state = Policy(retry=RetryPolicy(retries=retries)), Transition(AttemptState.LOST, JobState.QUEUED, 0, 0)
    for ending in endings:
        counts = (state.failures, state.crashes, state.alone)
        state = decide(JobCounts(policy, *counts, state.losses), ending, Random(seed))
        if state.job.ended:
            break
    assert state.failures <= retries + 1
    assert state.crashes <= CRASH_BUDGET
    assert not (state.job is JobState.QUEUED and (state.failures > retries or state.crashes >= CRASH_BUDGET))
    assert state.losses <= MAX_LOST + (state.job is JobState.FAILED)
