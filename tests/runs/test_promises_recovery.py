"""What is promised of retries, deadlines and recovery, each by its name, step by step."""

from datetime import timedelta

import pytest

from runs import standing, trigger
from runs.models import Process
from runs.rescue import expire, put_back, rescue
from runs.states import FINAL, TRANSITIONS
from tests import marks
from tests.factories import MINUTE, NOON, SECOND, make_run, make_task
from tests.runs.engine import claimed, failed, fresh, outcome, settled

pytestmark = marks.both

HOUR = 60 * MINUTE
FIXED = {"max_retries": 3, "initial_delay": 10, "strategy": "fixed", "max_delay": 60}
HANGING = {"kind": "timeout", "code": None}


def running(**fields):
    """A run under way since noon."""
    policy = fields.setdefault("retry_policy", FIXED)
    run = make_run(task=make_task(**fields), moment=NOON, max_attempts=policy["max_retries"] + 1)
    (mine,) = claimed()
    assert mine.pk == run.pk
    return mine


# --- retries --------------------------------------------------------------------------------------


def waits(policy, number):
    """For how long a run is left alone after each of its first failures."""
    run, now, found = running(retry_policy=FIXED | {"max_retries": 99} | policy), NOON, []
    for _ in range(number):
        assert settled(run, failed, now=now)
        found.append((fresh(run).next_retry_time - now) / SECOND)
        now = fresh(run).next_retry_time
        (run,) = claimed(now)
    return found


def test_a_fixed_delay_is_the_same_before_every_retry():
    assert waits({"strategy": "fixed", "initial_delay": 7, "max_delay": 1}, 5) == [7] * 5


def test_an_exponential_delay_doubles_with_every_retry_up_to_its_longest():
    policy = {"strategy": "exponential", "initial_delay": 5, "max_delay": 60}
    assert waits(policy, 6) == [5, 10, 20, 40, 60, 60]


@pytest.mark.parametrize("retries", [0, 1, 3])
def test_so_many_retries_are_one_more_attempt(retries):
    run = running(retry_policy=FIXED | {"max_retries": retries})
    for n in range(1, retries + 1):
        settled(run, failed, now=NOON + n * MINUTE)
        (run,) = claimed(NOON + n * MINUTE + 10 * SECOND)
    settled(run, failed, now=NOON + HOUR)
    kept = fresh(run)
    assert (kept.status, kept.attempt) == ("FAILED", retries + 1)
    assert claimed(NOON + 24 * HOUR) == []


def test_a_retry_is_made_when_its_time_has_come_and_not_before():
    run = running()
    settled(run, failed)
    at = fresh(run).next_retry_time
    assert (fresh(run).status, claimed(at - timedelta(microseconds=1))) == ("RETRYING", [])
    assert [again.pk for again in claimed(at)] == [run.pk]


@pytest.mark.parametrize(
    ("first", "last", "status"),
    [
        ({"code": 503}, HANGING, "TIMEOUT"),
        (HANGING, {"code": 503}, "FAILED"),
        (HANGING, {"code": 404}, "FAILED"),
        (HANGING, HANGING, "TIMEOUT"),
    ],
)
def test_the_last_attempt_alone_says_how_a_run_ended(first, last, status):
    run = running(retry_policy=FIXED | {"max_retries": 1})
    settled(run, failed, **first)
    (run,) = claimed(NOON + MINUTE)
    settled(run, failed, now=NOON + MINUTE, **last)
    assert fresh(run).status == status


@pytest.mark.parametrize(("what", "status"), [(HANGING, "TIMEOUT"), ({"code": 503}, "FAILED")])
@pytest.mark.parametrize("verb", ["disabled", "deleted"])
def test_what_runs_when_its_task_is_given_up_ends_as_it_ends_without_a_retry(verb, what, status):
    run = running()
    if verb == "disabled":
        standing.disable(run.task, reason="", now=NOON)
    else:
        standing.delete(run.task, now=NOON)
    assert fresh(run).status == "RUNNING"
    settled(run, failed, **what)
    assert (fresh(run).status, fresh(run).reason) == (status, verb)


# --- callbacks that do not come -------------------------------------------------------------------


def test_a_run_whose_callback_does_not_come_in_time_is_failed_timeout():
    run = running(exec_type="ASYNC", callback_timeout_sec=30)
    settled(run, outcome, asynchronous=True)
    assert expire(NOON + 29 * SECOND) == 0
    assert fresh(run).status == "CALLBACK_PENDING"
    assert expire(NOON + 30 * SECOND) == 1
    kept = fresh(run)
    assert (kept.status, kept.error_kind) == ("FAILED_TIMEOUT", "callback")
    assert (kept.end_time, kept.slot, kept.callback_deadline) == (NOON + 30 * SECOND, None, None)


def test_a_callback_that_does_not_come_lets_go_of_its_slot():
    run = running(exec_type="ASYNC", callback_timeout_sec=30, max_concurrency=1)
    waiting = make_run(task=run.task, moment=NOON - SECOND)
    settled(run, outcome, asynchronous=True)
    assert claimed() == []
    expire(NOON + 30 * SECOND)
    assert [next_one.pk for next_one in claimed(NOON + 30 * SECOND)] == [waiting.pk]


# --- after a crash --------------------------------------------------------------------------------


def orphan(owner="gone", **fields):
    """A run of which its process said that it calls."""
    task = make_task(retry_policy=FIXED | {"max_retries": 0}, **fields)
    return make_run(
        task=task, status="RUNNING", attempt=1, fence=1, slot=1, owner=owner,
        start_time=NOON, deadline_at=NOON + HOUR,
    )  # fmt: skip


@pytest.mark.parametrize(("on_lost", "status"), [("RETRY", "RETRYING"), ("FAIL", "FAILED")])
def test_what_ran_when_its_process_died_is_retrying_or_failed_as_its_task_says(on_lost, status):
    run = orphan(on_lost=on_lost)
    assert rescue(NOON) == 1
    assert (fresh(run).status, fresh(run).error_kind, fresh(run).lost) == (status, "lost", 1)


@pytest.mark.parametrize(("beat", "left"), [(SECOND, True), (-SECOND, False)])
def test_what_runs_is_left_alone_as_long_as_its_process_is_heard_of(beat, left):
    Process.objects.create(
        name="alive", host="h", pid=1, started_at=NOON, last_seen=NOON, lease_until=NOON + beat
    )
    run = orphan("alive")
    assert rescue(NOON) == (0 if left else 1)
    assert (fresh(run).status == "RUNNING") == left


@pytest.mark.parametrize("status", TRANSITIONS)
@pytest.mark.parametrize("on_lost", ["RETRY", "FAIL"])
@pytest.mark.parametrize("kind", ["SYNC", "ASYNC"])
def test_no_state_is_for_ever_even_if_nobody_ever_answers(status, on_lost, kind):
    task = make_task(on_lost=on_lost, exec_type=kind)
    run = make_run(task=task, status=status, attempt=int(status != "SCHEDULED"), max_attempts=1)
    for hours in range(1, 8):
        at = NOON + hours * HOUR
        claimed(at)
        expire(at)
        rescue(at + HOUR / 2)
    assert fresh(run).status in FINAL


def test_the_fence_of_a_run_grows_with_every_claim_and_never_shrinks():
    run = running()
    seen = [(run.attempt, run.fence)]
    put_back(fresh(run), now=NOON)
    seen.append((fresh(run).attempt, fresh(run).fence))
    for minute in (1, 2):
        (run,) = claimed(NOON + minute * MINUTE)
        seen.append((run.attempt, run.fence))
        settled(run, failed, now=NOON + minute * MINUTE)
    claimed(NOON + HOUR)
    rescue(NOON + 2 * HOUR)
    seen.append((fresh(run).attempt, fresh(run).fence))
    trigger.cancel(fresh(run), reason="", now=NOON + 2 * HOUR)
    seen.append((fresh(run).attempt, fresh(run).fence))
    assert seen == [(1, 1), (0, 2), (1, 3), (2, 4), (3, 6), (3, 6)]
