"""Due tasks become runs, each moment once, and tasks move on to their next."""

from datetime import timedelta

import pytest

from runs import standing
from runs.materialise import materialise
from runs.models import TaskRun
from runs.states import Status, Trigger
from tasks.models import Task
from tests import marks
from tests.factories import MINUTE, NOON, SECOND, make_run, make_task

pytestmark = marks.both

DAY = timedelta(days=1)


def due(moment=NOON, **fields):
    return make_task(next_run_at=moment, **fields)


def told(task):
    """(status, trigger, moment in minutes after noon) of each of its runs, in order."""
    runs = TaskRun.objects.filter(task=task).order_by("moment")
    return [(r.status, r.trigger, round((r.moment - NOON) / MINUTE)) for r in runs]


def test_a_due_moment_becomes_a_run_that_can_be_claimed_and_the_task_moves_on():
    task = due(retry_policy={"max_retries": 3}, priority=1)
    assert materialise(NOON + SECOND).due.total() == 1
    (run,) = TaskRun.objects.all()
    assert (run.task, run.moment, run.scheduled_time, run.ready_at) == (task, NOON, NOON, NOON)
    assert (run.status, run.trigger) == (Status.SCHEDULED, Trigger.SCHEDULE)
    assert (run.max_attempts, run.priority, run.attempt) == (4, 1, 0)
    task.refresh_from_db()
    assert task.next_run_at == task.next_moment == NOON + MINUTE
    assert task.version == 1  # firing is no edit


def test_nothing_is_made_before_its_time():
    due(NOON + SECOND)
    assert materialise(NOON).due.total() == 0
    assert not TaskRun.objects.exists()


def test_a_disabled_or_deleted_task_makes_no_run():
    due(status="DISABLED")
    due(deleted=True)
    assert materialise(NOON + DAY).due.total() == 0


def test_the_run_keeps_the_nominal_moment_and_starts_at_its_share_of_the_jitter():
    task = due(jitter_seconds=30)
    due_at = task.schedule().fires_at(NOON)
    Task.objects.update(next_run_at=due_at)
    materialise(due_at)
    run = TaskRun.objects.get()
    assert (run.moment, run.due_at, run.ready_at) == (NOON, due_at, due_at)


def test_a_task_that_runs_once_has_ended_afterwards_and_is_still_enabled():
    task = make_task(run_at=NOON, next_run_at=NOON)
    materialise(NOON)
    task.refresh_from_db()
    assert (task.ended, task.next_run_at, task.status) == (True, None, "ENABLED")
    assert told(task) == [("SCHEDULED", "SCHEDULE", 0)]


def test_a_moment_recorded_before_is_not_recorded_again():
    task = due()
    make_run(task=task, moment=NOON, status=Status.SUCCESS)
    materialise(NOON)
    assert told(task) == [("SUCCESS", "SCHEDULE", 0)]
    task.refresh_from_db()
    assert task.next_run_at == NOON + MINUTE


@pytest.mark.parametrize("change", [{"version": 2}, {"next_run_at": NOON + MINUTE}])
def test_a_task_that_changed_while_it_was_read_makes_no_run_by_what_was_read(change, monkeypatch):
    from runs import materialise as module

    task = due()
    monkeypatch.setattr(
        module, "failpoint", lambda name: Task.objects.filter(pk=task.pk).update(**change)
        if name == "materialise.read" else None,
    )  # fmt: skip
    materialise(NOON)
    assert not TaskRun.objects.exists()


# --- misfire -------------------------------------------------------------------------------------


def test_fire_now_runs_the_newest_and_records_the_others_as_one_entry():
    task = due(misfire_policy="FIRE_NOW")
    materialise(NOON + 5.5 * MINUTE)
    assert told(task) == [("MISSED", "SCHEDULE", 4), ("SCHEDULED", "CATCH_UP", 5)]
    entry = TaskRun.objects.get(status=Status.MISSED)
    assert (entry.missed_from, entry.missed_to) == (NOON, NOON + 4 * MINUTE)
    assert (entry.missed_count, entry.reason) == (5, "misfire")


def test_skip_records_everything_and_runs_nothing():
    task = due(misfire_policy="SKIP")
    materialise(NOON + 5.5 * MINUTE)
    assert told(task) == [("MISSED", "SCHEDULE", 5)]
    assert TaskRun.objects.get().missed_count == 6
    task.refresh_from_db()
    assert task.next_run_at == NOON + 6 * MINUTE


def test_catch_up_limited_runs_the_newest_up_to_its_limit():
    task = due(misfire_policy="CATCH_UP_LIMITED", catchup_limit=2)
    materialise(NOON + 5.5 * MINUTE)
    assert told(task) == [
        ("MISSED", "SCHEDULE", 3), ("SCHEDULED", "CATCH_UP", 4), ("SCHEDULED", "CATCH_UP", 5),
    ]  # fmt: skip


def test_a_backlog_within_the_grace_runs_as_a_whole():
    task = due(misfire_grace_seconds=600, misfire_policy="SKIP")
    materialise(NOON + 2.5 * MINUTE)
    assert told(task) == [("SCHEDULED", "SCHEDULE", n) for n in range(3)]


def test_a_full_backlog_lets_further_moments_be_skipped(settings):
    settings.CRONJOB_BACKLOG_MAX = 3
    task = due(misfire_grace_seconds=6000)
    make_run(task=task, moment=NOON - MINUTE)
    materialise(NOON + 4.5 * MINUTE)
    assert told(task)[1:] == [
        ("SCHEDULED", "SCHEDULE", 0), ("SCHEDULED", "SCHEDULE", 1), ("SKIPPED", "SCHEDULE", 4),
    ]  # fmt: skip
    entry = TaskRun.objects.get(status=Status.SKIPPED)
    assert (entry.reason, entry.missed_count) == ("backlog full", 3)


def test_one_task_that_cannot_be_scheduled_fails_itself_loudly_and_not_the_others(caplog):
    good, bad = due(), due(cron_expr="0 0 0 * * *")
    Task.objects.filter(pk=bad.pk).update(timezone="Atlantis/Capital")
    materialise(NOON)
    assert told(good) == [("SCHEDULED", "SCHEDULE", 0)]
    bad.refresh_from_db()
    assert bad.status == "DISABLED"
    assert "could not be computed" in bad.disabled_reason
    assert "cannot be scheduled" in caplog.text


# --- what is overdue when a task changes ---------------------------------------------------------


@pytest.mark.parametrize("reason", ["edited", "disabled", "deleted"])
def test_overdue_moments_are_recorded_once_when_a_task_changes(reason):
    task = due()
    now = NOON + 2.5 * MINUTE
    if reason == "edited":
        task.every_seconds = 7
        standing.edit(task, now=now)
    elif reason == "disabled":
        standing.disable(task, reason="", now=now)
    else:
        standing.delete(task, now=now)
    entry = TaskRun.objects.get()
    assert (entry.status, entry.reason, entry.missed_count) == (Status.MISSED, reason, 3)
    assert (entry.missed_from, entry.missed_to) == (NOON, NOON + 2 * MINUTE)


def test_an_edit_of_anything_else_records_nothing_and_lets_the_moment_come():
    task = due()
    task.description = "new"
    standing.edit(task, now=NOON + SECOND)
    assert not TaskRun.objects.exists()
    materialise(NOON + SECOND)
    assert told(task) == [("SCHEDULED", "SCHEDULE", 0)]


def test_each_of_several_schedulers_begins_with_tasks_of_its_own():
    tasks = [make_task(next_run_at=NOON) for _ in range(4)]
    shares = [(0, 2), (1, 2)]
    for rank, of in shares:
        assert materialise(NOON, share=(rank, of)).due.total() == 2
        made = set(TaskRun.objects.values_list("task", flat=True))
        assert {task.pk for task in tasks if task.pk % of == rank} <= made
    assert TaskRun.objects.count() == 4


def test_what_another_scheduler_leaves_to_lie_is_anybodys():
    make_task(next_run_at=NOON)
    (pk,) = Task.objects.values_list("pk", flat=True)
    others = ((pk + 1) % 2, 2)
    assert materialise(NOON + SECOND / 10, share=others).due.total() == 0
    assert materialise(NOON + SECOND, share=others).due.total() == 1
