"""What is promised of schedules, overlap and triggers, each by its name, step by step."""

from datetime import timedelta
from uuid import UUID

import pytest

from runs import standing, trigger
from runs.materialise import materialise
from runs.models import SchedulerLock, TaskRun
from runs.settle import report
from runs.states import Status
from runs.trigger import LimitReached
from tasks.models import ConcurrencyPolicy, Task
from tests import marks
from tests.factories import MINUTE, NOON, SECOND, make_run, make_task
from tests.runs.engine import claimed, fresh, settled

pytestmark = marks.both

HOUR = 60 * MINUTE
MS = SECOND / 1000


def due(moment=NOON, **fields):
    return make_task(next_run_at=moment, **fields)


def new(**fields):
    """A task as a client makes it, at noon."""
    task = Task(**({"name": "mine", "target_url": "http://127.0.0.1:9/never"} | fields))
    task.clean()
    standing.create(task, now=NOON)
    return task


def recorded(task):
    """Each moment and what became of it."""
    runs = TaskRun.objects.filter(task=task).order_by("moment")
    return [(run.status, (run.moment - NOON) / SECOND) for run in runs]


def fresh_task(task):
    return Task.objects.get(pk=task.pk)


def moments(task):
    return [moment for _, moment in recorded(task)]


# --- a moment becomes a run -----------------------------------------------------------------------


def test_a_due_moment_is_stored_as_scheduled_and_then_runs():
    task = due()
    materialise(NOON)
    assert recorded(task) == [("SCHEDULED", 0)]
    (run,) = claimed()
    assert recorded(task) == [("RUNNING", 0)]
    settled(run)
    assert recorded(task) == [("SUCCESS", 0)]


def test_an_asynchronous_run_waits_for_its_callback_which_ends_it_well():
    run = make_run(task=make_task(exec_type="ASYNC"), moment=NOON - SECOND)
    (run,) = claimed()
    settled(run, asynchronous=True)
    assert fresh(run).status == "CALLBACK_PENDING"
    assert report(fresh(run), ok=True, message="", now=NOON)
    assert (fresh(run).status, fresh(run).end_time) == ("CALLBACK_SUCCESS", NOON)


def test_five_fields_are_stored_as_six():
    assert fresh_task(new(schedule_kind="CRON", cron_expr="*/5 * * * *")).cron_expr == (
        "0 */5 * * * *"
    )


def test_what_is_triggered_begins_as_scheduled_and_goes_the_same_way():
    run = trigger.trigger(make_task().pk, now=NOON)
    seen = [fresh(run).status]
    (mine,) = claimed()
    seen.append(fresh(run).status)
    settled(mine)
    assert [*seen, fresh(run).status] == ["SCHEDULED", "RUNNING", "SUCCESS"]


def test_a_task_of_every_fifth_second_gets_a_run_every_five_seconds():
    task = new(schedule_kind="CRON", cron_expr="*/5 * * * * *", concurrency_policy="PARALLEL")
    for second in range(31):
        materialise(NOON + second * SECOND)
    assert moments(task) == [5, 10, 15, 20, 25, 30]
    assert len(claimed(NOON + MINUTE)) == 6


@pytest.mark.parametrize(("start_at", "first"), [(None, 60), (NOON + 25 * SECOND, 25)])
def test_an_interval_begins_at_its_start_or_one_interval_after_it_was_made(start_at, first):
    task = new(schedule_kind="EVERY", every_seconds=60, start_at=start_at)
    for second in range(200):
        materialise(NOON + second * SECOND)
    assert moments(task) == [first, first + 60, first + 120]


def test_a_run_comes_later_than_its_moment_by_its_share_of_the_jitter_alone():
    task = new(schedule_kind="EVERY", every_seconds=60, jitter_seconds=50, uuid=UUID(int=2))
    share = task.next_run_at - task.next_moment
    assert timedelta(0) < share < 50 * SECOND
    for early in (NOON + MINUTE, NOON + MINUTE + share - timedelta(milliseconds=1)):
        assert materialise(early).due.total() == 0
    materialise(NOON + MINUTE + share)
    (run,) = TaskRun.objects.all()
    assert (run.scheduled_time, run.due_at) == (NOON + MINUTE, NOON + MINUTE + share)


def test_what_comes_once_runs_at_its_time_and_never_again():
    task = new(schedule_kind="ONCE", run_at=NOON + 7 * SECOND)
    for second in (6, 7, 8, 1000):
        materialise(NOON + second * SECOND)
    assert recorded(task) == [("SCHEDULED", 7)]
    assert fresh_task(task).ended


def test_what_comes_once_and_was_missed_under_skip_is_missed_and_not_made_up_for():
    task = new(schedule_kind="ONCE", run_at=NOON + SECOND, misfire_policy="SKIP")
    for later in (HOUR, 2 * HOUR):
        materialise(NOON + later)
    assert recorded(task) == [("MISSED", 1)]
    assert claimed(NOON + 3 * HOUR) == []


def test_after_an_outage_an_interval_under_skip_goes_on_with_its_next_moment():
    task = due(misfire_policy="SKIP")
    materialise(NOON + HOUR + SECOND)
    assert recorded(task) == [("MISSED", 3600)]
    materialise(NOON + HOUR + MINUTE)
    assert recorded(task)[1:] == [("SCHEDULED", 3660)]


def test_waiting_for_a_slot_is_lateness_and_no_misfire():
    task = due(misfire_policy="SKIP", max_concurrency=1)
    make_run(task=task, moment=NOON - MINUTE)
    (long,) = claimed()
    materialise(NOON)
    assert claimed() == []
    settled(long, now=NOON + HOUR)
    (run,) = claimed(NOON + HOUR)
    assert (run.moment, run.lateness_ms) == (NOON, 3_600_000)


# --- changes of a task ---------------------------------------------------------------------------


def test_a_task_that_is_disabled_makes_no_run_from_then_on():
    task = due(NOON + MINUTE)
    standing.disable(task, reason="", now=NOON + 59 * SECOND)
    assert materialise(NOON + MINUTE).due.total() == 0
    assert recorded(task) == []


def test_a_task_that_is_enabled_makes_runs_from_then_on_and_none_for_before():
    task = new(schedule_kind="EVERY", every_seconds=60, status="DISABLED")
    standing.enable(task, now=NOON + HOUR + SECOND)
    materialise(NOON + HOUR + MINUTE)
    assert recorded(task) == [("SCHEDULED", 3660)]


def test_a_new_schedule_counts_from_the_next_look_on():
    task = due(NOON + MINUTE)
    task.every_seconds = 10
    standing.edit(task, now=NOON + SECOND)
    materialise(NOON + 10 * SECOND)
    assert moments(task) == [10]


def test_nobody_needs_a_lock_to_schedule_and_to_claim():
    SchedulerLock.objects.create(
        lock_name="scheduler", owner_id="somebody else", expires_at=NOON + HOUR
    )
    task = due()
    materialise(NOON)
    assert len(claimed()) == 1
    assert recorded(task) == [("RUNNING", 0)]


# --- overlap --------------------------------------------------------------------------------------


def test_under_queue_a_planned_run_waits_for_a_slot_and_the_oldest_goes_first():
    task = make_task(concurrency_policy="QUEUE", max_concurrency=1)
    runs = [make_run(task=task, moment=NOON - (3 - n) * SECOND) for n in range(3)]
    for expected in runs:
        (run,) = claimed()
        assert run.pk == expected.pk
        assert claimed() == []
        settled(run)


def test_under_skip_a_planned_run_at_the_limit_is_skipped_and_says_why():
    task = make_task(concurrency_policy="SKIP", max_concurrency=1)
    first, second = (make_run(task=task, moment=NOON - (2 - n) * SECOND) for n in range(2))
    assert [run.pk for run in claimed()] == [first.pk]
    assert (fresh(second).status, fresh(second).reason) == ("SKIPPED", "limit of 1 reached")


def test_under_parallel_the_limit_is_ignored():
    task = make_task(concurrency_policy="PARALLEL", max_concurrency=1)
    for n in range(3):
        make_run(task=task, moment=NOON - (n + 1) * SECOND)
    assert len(claimed()) == 3


@pytest.mark.parametrize("status", Status)
def test_what_runs_retries_or_awaits_its_callback_counts_towards_the_limit(status):
    counts = status in ("RUNNING", "RETRYING", "CALLBACK_PENDING")
    task = make_task(max_concurrency=1, concurrency_policy="SKIP")
    make_run(task=task, status=status, slot=1 if counts else None)
    other = make_run(task=task, moment=NOON)
    assert len(claimed()) == (0 if counts else 1)
    assert fresh(other).status == ("SKIPPED" if counts else "RUNNING")


@pytest.mark.parametrize(
    ("policy", "code", "status"),
    [("QUEUE", 202, "SCHEDULED"), ("SKIP", 409, None), ("PARALLEL", 202, "RUNNING")],
)
def test_at_the_limit_a_trigger_goes_by_the_policy_of_its_task(api, policy, code, status):
    task = make_task(max_concurrency=1, concurrency_policy=policy)
    make_run(task=task, status="RUNNING", slot=1)
    answer = api.post(f"tasks/{task.pk}/trigger")
    made = TaskRun.objects.filter(trigger="MANUAL")
    TaskRun.objects.filter(pk__in=made).update(ready_at=NOON)
    claimed()
    assert answer.status_code == code
    assert [run.status for run in made] == ([status] if status else [])


def test_with_a_limit_of_zero_a_trigger_under_skip_is_refused_and_makes_nothing(api):
    task = make_task(concurrency_policy="SKIP")
    assert api.patch(f"tasks/{task.pk}", {"max_concurrency": 0}).status_code == 200
    answer = api.post(f"tasks/{task.pk}/trigger")
    assert (answer.status_code, answer.json()["code"]) == (409, "CONCURRENCY_LIMIT")
    assert not TaskRun.objects.exists()


def test_a_replay_under_skip_at_the_limit_makes_nothing():
    task = make_task(max_concurrency=1, concurrency_policy="SKIP")
    old = make_run(task=task, status="FAILED")
    make_run(task=task, status="RUNNING", slot=1)
    with pytest.raises(LimitReached):
        trigger.replay(old, now=NOON)
    assert TaskRun.objects.count() == 2


# --- triggers -------------------------------------------------------------------------------------


@pytest.mark.parametrize("policy", ConcurrencyPolicy)
def test_a_trigger_is_never_merged_with_another_run(policy):
    task = due(max_concurrency=9, concurrency_policy=policy)
    materialise(NOON)
    made = [trigger.trigger(task.pk, now=NOON).pk for _ in range(2)]
    assert len(claimed()) == 3
    made += [trigger.trigger(task.pk, now=NOON).pk for _ in range(2)]
    assert len(set(made)) == 4
    assert TaskRun.objects.filter(task=task).count() == 5


def test_a_run_now_leaves_the_schedule_alone(api):
    task = due(NOON + MINUTE)
    before = Task.objects.values().get()
    run = TaskRun.objects.get(pk=api.post(f"tasks/{task.pk}/trigger").json()["run_id"])
    (mine,) = claimed(run.ready_at)
    settled(mine, now=run.ready_at)
    assert Task.objects.values().get() == before
    materialise(NOON + MINUTE)
    planned = TaskRun.objects.get(trigger="SCHEDULE")
    assert (planned.moment, planned.status) == (NOON + MINUTE, "SCHEDULED")


def test_what_has_not_started_asks_for_what_its_task_says_by_then():
    task = make_task()
    make_run(task=task, moment=NOON)
    task.target_url, task.http_method = "http://elsewhere/", "PUT"
    standing.edit(task, now=NOON)
    (run,) = claimed()
    assert (run.template["target_url"], run.template["http_method"]) == ("http://elsewhere/", "PUT")


# --- never twice -----------------------------------------------------------------


@pytest.mark.parametrize("how", ["looks", "disable and enable", "edit"])
def test_a_clock_that_steps_back_fires_no_moment_twice(how):
    task = due()
    for minute in range(6):
        materialise(NOON + minute * MINUTE)
    back = NOON + 2.5 * MINUTE
    task = fresh_task(task)
    if how == "disable and enable":
        standing.disable(task, reason="", now=back)
        standing.enable(task, now=back)
    elif how == "edit":
        task.end_at = NOON + HOUR
        standing.edit(task, now=back)
    for minute in range(3, 8):
        materialise(NOON + minute * MINUTE)
    assert moments(task) == [60 * n for n in range(8)]
    assert {status for status, _ in recorded(task)} <= {"SCHEDULED", "CANCELED"}
