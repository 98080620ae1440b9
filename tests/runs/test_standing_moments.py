"""Which moment a task points at after each change."""

from datetime import timedelta

import pytest

from runs import standing
from tasks.models import SCHEDULE_FIELDS, Task
from tests import marks
from tests.factories import MINUTE, NOON, SECOND, make_task
from tests.runs.test_standing import DAY, new, stored

pytestmark = marks.both


def test_a_new_task_points_at_its_first_moment():
    task = new()
    standing.create(task, now=NOON + SECOND / 2)
    assert stored(task).next_run_at == stored(task).next_moment == NOON + MINUTE


def test_the_run_comes_within_the_jitter_of_its_moment():
    tasks = [new(name=f"mine {n}", jitter_seconds=30) for n in range(20)]
    for task in tasks:
        standing.create(task, now=NOON)
    assert {stored(task).next_moment for task in tasks} == {NOON + MINUTE}
    shares = {stored(task).next_run_at - stored(task).next_moment for task in tasks}
    assert all(timedelta(0) <= share < 30 * SECOND for share in shares)
    assert len(shares) > 10


def test_a_new_task_whose_window_has_passed_has_ended():
    task = new(end_at=NOON - DAY)
    standing.create(task, now=NOON)
    assert (stored(task).ended, stored(task).next_run_at) == (True, None)


def test_a_task_made_disabled_points_at_nothing_until_it_is_enabled():
    task = new(status="DISABLED")
    standing.create(task, now=NOON)
    assert (stored(task).next_run_at, stored(task).ended) == (None, False)
    standing.enable(task, now=NOON + 10 * MINUTE + SECOND)
    assert stored(task).next_run_at == NOON + 11 * MINUTE


def test_disabling_takes_the_next_moment_away_and_enabling_gives_one_from_then_on():
    task = make_task(next_run_at=NOON)
    standing.disable(task, reason="", now=NOON)
    assert (stored(task).next_run_at, stored(task).next_moment) == (None, None)
    standing.enable(task, now=NOON + DAY)
    assert stored(task).next_run_at == NOON + DAY + MINUTE


def test_enabling_what_is_enabled_leaves_the_next_moment_alone():
    task = make_task(next_run_at=NOON - DAY)
    standing.enable(task, now=NOON)
    assert stored(task).next_run_at == NOON - DAY


@pytest.mark.parametrize("field", SCHEDULE_FIELDS)
def test_a_change_of_any_schedule_field_moves_the_next_moment(field):
    values = {
        "schedule_kind": {"schedule_kind": "MANUAL", "every_seconds": None},
        "cron_expr": {"schedule_kind": "CRON", "every_seconds": None, "cron_expr": "0 0 0 * * *"},
        "every_seconds": {"every_seconds": 7},
        "run_at": {"schedule_kind": "ONCE", "every_seconds": None, "run_at": NOON + 3 * DAY},
        "start_at": {"start_at": NOON + DAY},
        "end_at": {"end_at": NOON + SECOND},
        "jitter_seconds": {"jitter_seconds": 1},
        "timezone": {"timezone": "Asia/Shanghai"},
    }[field]
    task = make_task(next_run_at=NOON - DAY)
    for name, value in values.items():
        setattr(task, name, value)
    standing.edit(task, now=NOON)
    assert stored(task).next_moment != NOON - DAY


def test_any_other_change_leaves_the_next_moment_alone():
    task = make_task(next_run_at=NOON - DAY)
    task.description, task.target_url, task.misfire_policy = "new", "http://y/", "SKIP"
    standing.edit(task, now=NOON)
    assert stored(task).next_run_at == NOON - DAY


def test_enabling_goes_by_the_schedule_that_is_stored_by_now():
    task = make_task(status="DISABLED")
    Task.objects.filter(pk=task.pk).update(every_seconds=3600)
    standing.enable(task, now=NOON)
    assert stored(task).next_run_at == NOON + 60 * MINUTE


def test_an_edit_brings_a_moment_that_is_earlier_than_the_one_before():
    task = make_task(cron_expr="0 0 0 * * *", next_run_at=NOON + DAY / 2)
    task.schedule_kind, task.cron_expr, task.every_seconds = "EVERY", None, 300
    standing.edit(task, now=NOON)
    assert stored(task).next_run_at == NOON + 5 * MINUTE


def test_an_edit_keeps_the_moment_that_waits_for_its_share_of_the_jitter():
    task = make_task(jitter_seconds=59, next_moment=NOON, next_run_at=NOON + 50 * SECOND)
    task.jitter_seconds = 58
    standing.edit(task, now=NOON)
    assert stored(task).next_moment == NOON
    assert NOON < stored(task).next_run_at < NOON + 58 * SECOND


def test_an_edit_drops_a_pending_moment_that_the_new_schedule_does_not_have():
    task = make_task(jitter_seconds=59, next_moment=NOON, next_run_at=NOON + 50 * SECOND)
    task.every_seconds, task.start_at = 3600, NOON + MINUTE
    standing.edit(task, now=NOON)
    assert stored(task).next_moment == NOON + MINUTE
