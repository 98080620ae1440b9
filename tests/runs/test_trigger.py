"""Asking for a run, asking again, and taking one back."""

import pytest

from runs import trigger
from runs.models import TaskRun
from runs.states import FINAL, OCCUPYING, TRANSITIONS, Status
from tests import marks
from tests.factories import MINUTE, NOON, SECOND, make_api, make_run, make_task
from tests.runs.engine import claimed, fresh, settled

pytestmark = marks.both


def test_a_trigger_makes_one_run_for_now_that_can_be_claimed_at_once():
    task = make_task(priority=1, retry_policy={"max_retries": 2})
    run = fresh(trigger.trigger(task.pk, now=NOON, override_body="x"))
    assert (run.status, run.trigger, run.moment) == ("SCHEDULED", "MANUAL", None)
    assert run.scheduled_time == run.due_at == run.ready_at == NOON
    assert (run.override_body, run.priority, run.max_attempts) == ("x", 1, 3)
    (mine,) = claimed()
    assert mine.pk == run.pk


def test_two_triggers_are_two_runs():
    task = make_task()
    first, second = (trigger.trigger(task.pk, now=NOON) for _ in range(2))
    assert first.pk != second.pk


def test_a_disabled_task_can_be_triggered_and_a_deleted_one_not():
    trigger.trigger(make_task(status="DISABLED").pk, now=NOON)
    with pytest.raises(trigger.NotPossible, match="deleted"):
        trigger.trigger(make_task(deleted=True).pk, now=NOON)


def test_under_skip_at_the_limit_nothing_is_made():
    task = make_task(concurrency_policy="SKIP", max_concurrency=1)
    first = trigger.trigger(task.pk, now=NOON)
    assert fresh(first).slot == 1  # taken before anybody claims it
    with pytest.raises(trigger.LimitReached):
        trigger.trigger(task.pk, now=NOON)
    assert TaskRun.objects.count() == 1
    (run,) = claimed()
    settled(run)
    trigger.trigger(task.pk, now=NOON)


def test_under_queue_it_waits():
    task = make_task(concurrency_policy="QUEUE", max_concurrency=1)
    runs = [trigger.trigger(task.pk, now=NOON + n * SECOND) for n in range(2)]
    assert [r.pk for r in claimed(NOON + MINUTE)] == [runs[0].pk]
    assert fresh(runs[1]).status == "SCHEDULED"


def test_under_parallel_it_runs():
    task = make_task(concurrency_policy="PARALLEL", max_concurrency=1)
    for _ in range(2):
        trigger.trigger(task.pk, now=NOON)
    assert len(claimed()) == 2


@pytest.mark.parametrize("kind", ["JOB", "NODE"])
def test_jobs_and_nodes_cannot_be_forced_to_call_back(kind):
    with pytest.raises(ValueError, match="asynchronously"):
        trigger.trigger(make_task(exec_type=kind).pk, now=NOON, force_async=True)


def test_nothing_is_forced_to_call_back_that_would_not_know_where(settings):
    settings.CRONJOB_BASE_URL = ""
    task = make_task()
    answer = make_api("operate").post(f"tasks/{task.pk}/trigger", {"force_async": True})
    assert (answer.status_code, answer.json()["code"]) == (400, "INVALID_ARGUMENT")
    assert "CRONJOB_BASE_URL" in answer.json()["fields"]["force_async"][0]
    assert not TaskRun.objects.exists()
    assert trigger.trigger(task.pk, now=NOON).pk


@pytest.mark.parametrize("dry", [True, False])
def test_nothing_is_replayed_to_call_back_that_would_not_know_where(settings, dry):
    settings.CRONJOB_BASE_URL = ""
    old = make_run(status="FAILED", force_async=True)
    api = make_api("operate")
    answer = api.post(f"runs/{old.pk}/replay")
    assert (answer.status_code, answer.json()["code"]) == (409, "INVALID_STATE")
    assert "CRONJOB_BASE_URL" in answer.json()["message"]
    body = {"action": "replay", "filter": {"status": "FAILED"}, "dry_run": dry}
    told = api.post("runs/bulk", body).json()
    assert "CRONJOB_BASE_URL" in str(told["results"])
    assert TaskRun.objects.count() == 1


def test_a_replay_is_for_the_time_of_the_old_run_by_the_task_as_it_is_now():
    old = make_run(status="FAILED", override_body="old", moment=NOON - MINUTE)
    run = fresh(trigger.replay(old, now=NOON))
    assert (run.trigger, run.scheduled_time, run.moment) == ("REPLAY", NOON - MINUTE, None)
    assert (run.override_body, run.due_at, run.template) == ("old", NOON, None)
    again = trigger.replay(old, now=NOON, override_body="new")
    assert fresh(again).override_body == "new"


@pytest.mark.parametrize("status", list(TRANSITIONS))
def test_what_is_not_over_cannot_be_replayed(status):
    with pytest.raises(trigger.NotPossible, match=status):
        trigger.replay(make_run(status=status, attempt=int(status != "SCHEDULED")), now=NOON)


@pytest.mark.parametrize("status", list(TRANSITIONS))
def test_every_run_that_is_not_over_can_be_canceled(status):
    slot = 1 if status in OCCUPYING else None
    run = make_run(status=status, slot=slot, attempt=int(status != "SCHEDULED"))
    trigger.cancel(run, reason="enough", now=NOON)
    kept = fresh(run)
    assert (kept.status, kept.reason, kept.end_time) == ("CANCELED", "enough", NOON)
    assert (kept.slot, kept.deadline_at, kept.callback_deadline) == (None, None, None)
    assert (kept.ready_at, kept.next_retry_time) == (None, None)


@pytest.mark.parametrize("status", FINAL)
def test_what_is_over_cannot_be_canceled(status):
    run = make_run(status=status)
    with pytest.raises(trigger.NotPossible, match=status):
        trigger.cancel(run, reason="", now=NOON)
    assert fresh(run).status == status


def test_canceling_lets_the_next_one_go():
    task = make_task(concurrency_policy="QUEUE", max_concurrency=1)
    runs = [make_run(task=task, moment=NOON - n * SECOND) for n in (2, 1)]
    claimed()
    trigger.cancel(fresh(runs[0]), reason="", now=NOON)
    assert [run.pk for run in claimed()] == [runs[1].pk]


def test_a_canceled_run_takes_no_late_answer():
    make_run(moment=NOON - SECOND)
    (run,) = claimed()
    trigger.cancel(run, reason="", now=NOON)
    assert not settled(run)
    assert fresh(run).status == Status.CANCELED
