"""Claiming: owners, fences, overlap policies, priorities."""

from datetime import timedelta

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from runs import trigger
from runs.claim import claim, unpark
from runs.materialise import materialise
from runs.models import TaskRun
from runs.states import Status
from tests import marks
from tests.factories import MINUTE, NOON, SECOND, make_run, make_task
from tests.runs.engine import claimed, failed, fresh, registered, settled

pytestmark = marks.both


def ready(task, count=1, **fields):
    return [make_run(task=task, moment=NOON - (count - n) * SECOND, **fields) for n in range(count)]


def statuses(task):
    return [run.status for run in TaskRun.objects.filter(task=task).order_by("moment", "id")]


def test_a_claimed_run_has_an_owner_a_fence_an_attempt_and_a_deadline():
    task = make_task(timeout_seconds=30)
    (run,) = ready(task)
    (mine,) = claimed(owner="host:1:a")
    kept = fresh(run)
    assert mine.pk == run.pk
    assert (kept.status, kept.owner, kept.fence, kept.attempt) == ("RUNNING", "host:1:a", 1, 1)
    assert kept.deadline_at == NOON + timedelta(seconds=40)
    assert (kept.start_time, kept.lateness_ms, kept.ready_at) == (NOON, 1000, None)
    assert task.target_url in kept.template.values()
    assert claimed() == []


def test_what_is_asked_for_is_fixed_at_the_first_claim():
    task = make_task(retry_policy={"max_retries": 1, "initial_delay": 0, "strategy": "fixed"})
    ready(task, max_attempts=2)
    (run,) = claimed()
    settled(run, failed)
    task.target_url = "http://elsewhere/"
    task.save()
    (again,) = claimed(NOON + SECOND)
    assert (again.template, again.trace_id) == (run.template, run.trace_id)
    assert "elsewhere" not in str(again.template)


def test_nothing_is_claimed_before_its_time_nor_beyond_the_room():
    task = make_task(concurrency_policy="PARALLEL")
    ready(task, 3)
    make_run(task=task, moment=NOON + MINUTE)
    assert len(claimed(room=2)) == 2
    assert len(claimed(room=2)) == 1


# --- overlap -------------------------------------------------------------------------------------


def test_queue_truly_waits_until_a_slot_of_its_task_is_free():
    task = make_task(concurrency_policy="QUEUE", max_concurrency=2)
    ready(task, 4)
    first = claimed()
    assert [run.slot for run in first] == [1, 2]
    assert statuses(task) == ["RUNNING", "RUNNING", "SCHEDULED", "SCHEDULED"]
    assert not TaskRun.objects.exclude(ready_at=None).exists()  # waiting costs the poll nothing
    settled(first[0], now=NOON + SECOND)
    (third,) = claimed(NOON + SECOND)
    assert third.slot == 1
    assert statuses(task) == ["SUCCESS", "RUNNING", "RUNNING", "SCHEDULED"]


def test_as_many_go_on_as_slots_became_free_at_once():
    task = make_task(concurrency_policy="QUEUE", max_concurrency=3)
    ready(task, 6)
    from runs.settle import settle
    from tests.runs.engine import outcome

    settle([(run, outcome(run)) for run in claimed()], now=NOON)
    assert len(claimed(NOON)) == 3


def test_skip_records_what_it_skips_and_why():
    task = make_task(concurrency_policy="SKIP", max_concurrency=1)
    ready(task, 2)
    assert len(claimed()) == 1
    assert statuses(task) == ["RUNNING", "SKIPPED"]
    assert TaskRun.objects.get(status=Status.SKIPPED).reason == "limit of 1 reached"


def test_parallel_ignores_the_limit():
    task = make_task(concurrency_policy="PARALLEL", max_concurrency=1)
    ready(task, 3)
    assert [run.slot for run in claimed()] == [None] * 3


@pytest.mark.parametrize(("policy", "status"), [("QUEUE", "SCHEDULED"), ("SKIP", "SKIPPED")])
def test_a_limit_of_zero_is_always_reached(policy, status):
    task = make_task(concurrency_policy=policy, max_concurrency=0)
    ready(task)
    assert claimed() == []
    assert statuses(task) == [status]
    assert unpark([task.pk], NOON) == 0


def test_a_run_that_is_tried_again_keeps_its_slot():
    policy = {"max_retries": 1, "initial_delay": 60, "strategy": "fixed"}
    task = make_task(concurrency_policy="QUEUE", retry_policy=policy)
    ready(task, 2, max_attempts=2)
    (run,) = claimed()
    settled(run, failed)
    assert claimed(NOON + SECOND) == []
    (again,) = claimed(NOON + 2 * MINUTE)
    assert (again.pk, again.slot, again.attempt, again.fence) == (run.pk, 1, 2, 2)


@pytest.mark.parametrize("policy", ["QUEUE", "SKIP", "PARALLEL"])
def test_catching_up_goes_one_after_another_whatever_the_policy(policy):
    task = make_task(concurrency_policy=policy, max_concurrency=5)
    ready(task, 3, trigger="CATCH_UP")
    for n in range(3):
        (run,) = claimed(NOON + n * SECOND)
        assert run.moment == NOON - (3 - n) * SECOND
        assert settled(run, now=NOON + n * SECOND)
    assert statuses(task) == ["SUCCESS"] * 3


def test_a_run_that_waited_too_long_is_missed():
    task = make_task(start_deadline_seconds=10)
    (run,) = ready(task)
    assert claimed(NOON + MINUTE) == []
    kept = fresh(run)
    assert (kept.status, kept.reason, kept.attempt) == ("MISSED", "not started in time", 0)


@pytest.mark.parametrize("change", [{"status": "DISABLED"}, {"deleted": True}])
def test_a_retry_that_was_decided_while_its_task_was_given_up_is_canceled(change):
    task = make_task(retry_policy={"max_retries": 3, "initial_delay": 1})
    ready(task, max_attempts=4)
    (run,) = claimed()
    settled(run, failed)
    type(task).objects.filter(pk=task.pk).update(**change)
    assert claimed(NOON + MINUTE) == []
    kept = fresh(run)
    assert (kept.status, kept.reason) == (
        "CANCELED",
        "disabled" if "status" in change else "deleted",
    )
    assert (kept.slot, kept.template, kept.next_retry_time) == (None, None, None)


def test_what_somebody_asked_of_a_disabled_task_still_runs():
    trigger.trigger(make_task(status="DISABLED").pk, now=NOON)
    assert len(claimed()) == 1


# --- priority ------------------------------------------------------------------------------------


def test_the_urgent_go_first_and_the_old_still_move():
    tasks = [make_task(concurrency_policy="PARALLEL", priority=p) for p in (3, 0)]
    low = ready(tasks[0], 5, priority=3, ready_at=NOON - MINUTE)
    ready(tasks[1], 40, priority=0)
    found = claimed(room=10)
    assert [run.priority for run in found].count(0) == 8
    assert {run.pk for run in found} >= {low[0].pk, low[1].pk}


def test_of_the_same_priority_the_oldest_goes_first():
    task = make_task(concurrency_policy="PARALLEL")
    runs = ready(task, 5)
    assert [run.pk for run in claimed(room=2)] == [runs[0].pk, runs[1].pk]


def test_from_being_due_to_being_claimed_takes_six_statements():
    registered("a")
    make_task(next_run_at=NOON)
    with CaptureQueriesContext(connection) as seen:
        made = materialise(NOON)
        assert len(claim(NOON, owner="a", room=4, priorities=[*made.due]).runs) == 1
    asked = [query["sql"].split()[0] for query in seen.captured_queries]
    asked = [word for word in asked if word not in ("SAVEPOINT", "RELEASE", "BEGIN", "COMMIT")]
    assert len(asked) == 6, asked
