"""Pauses: nothing fires while one stands, and what passed is recorded once."""

import pytest

from runs import pauses, trigger
from runs.materialise import materialise
from runs.models import Pause, TaskRun
from tasks.models import Task
from tests import marks
from tests.factories import MINUTE, NOON, SECOND, make_run, make_task
from tests.runs.engine import claimed, failed, fresh, settled

pytestmark = marks.both

LATER = NOON + 10.5 * MINUTE


def pause(tag="", until=None):
    pauses.pause(tag=tag, reason="deploy", until=until, now=NOON)


def due(**fields):
    return make_task(next_run_at=NOON + MINUTE, **fields)


def told(task):
    return [(r.status, r.reason, r.missed_count) for r in TaskRun.objects.filter(task=task)]


def test_no_moment_becomes_a_run_while_everything_is_paused():
    task = due()
    pause()
    materialise(NOON + MINUTE)
    assert told(task) == []
    assert materialise(NOON + 5 * MINUTE) == 0  # it is held, and costs the poll nothing


def test_resuming_records_what_passed_as_one_entry_and_fires_no_backlog():
    task = due()
    pause()
    materialise(NOON + MINUTE)
    assert pauses.resume(tag=None, now=LATER)
    assert told(task) == [("MISSED", "paused", 10)]
    assert materialise(LATER) == 0
    assert materialise(NOON + 11 * MINUTE) == 1


def test_what_was_not_looked_at_while_the_pause_stood_is_judged_by_its_misfire_policy():
    task = due()
    pause()
    pauses.resume(tag=None, now=LATER)
    materialise(LATER)
    assert sorted(status for status, *_ in told(task)) == ["MISSED", "SCHEDULED"]


def test_a_tag_is_paused_alone():
    tagged, other = due(tags=["a", "b"]), due(tags=["c"])
    pause("b")
    materialise(NOON + MINUTE)
    assert told(tagged) == []
    assert len(told(other)) == 1


def test_a_task_is_held_until_the_last_of_its_pauses_ends():
    task = due(tags=["a", "b"])
    pause("a")
    pause("b")
    materialise(NOON + MINUTE)
    pauses.resume(tag="a", now=LATER)
    assert told(task) == []
    pauses.resume(tag="b", now=LATER)
    assert len(told(task)) == 1


def test_waiting_and_retrying_runs_are_held_and_go_on_afterwards():
    policy = {"max_retries": 1, "initial_delay": 5, "strategy": "fixed"}
    task = make_task(retry_policy=policy, max_concurrency=5)
    make_run(task=task, moment=NOON - SECOND, max_attempts=2)
    (run,) = claimed()
    settled(run, failed)
    make_run(task=task, moment=NOON)
    pause()
    assert claimed(NOON + MINUTE) == []
    assert not TaskRun.objects.ready(NOON + MINUTE).exists()
    pauses.resume(tag=None, now=LATER)
    assert len(claimed(LATER)) == 2


def test_what_somebody_asks_for_still_runs():
    task = make_task()
    pause()
    run = trigger.trigger(task, now=NOON)
    assert [r.pk for r in claimed()] == [run.pk]
    settled(fresh(run))


def test_a_call_under_way_ends_by_itself():
    make_run(moment=NOON - SECOND)
    (run,) = claimed()
    pause()
    assert settled(run)
    assert fresh(run).status == "SUCCESS"


def test_a_pause_can_end_by_itself():
    task = due()
    pause(until=NOON + 5 * MINUTE)
    materialise(NOON + MINUTE)
    pauses.end_due(NOON + 4 * MINUTE)
    assert Pause.objects.exists()
    pauses.end_due(LATER)
    assert not Pause.objects.exists()
    assert told(task) == [("MISSED", "paused", 10)]


@pytest.mark.parametrize("change", ["disable", "delete", "edit"])
def test_a_held_task_that_changes_records_what_passed(change):
    from runs import standing

    task = due()
    pause()
    materialise(NOON + MINUTE)
    task = Task.objects.get(pk=task.pk)
    if change == "edit":
        task.every_seconds = 3600
        standing.edit(task, now=LATER)
    elif change == "disable":
        standing.disable(task, reason="", now=LATER)
    else:
        standing.delete(task, now=LATER)
    assert [count for *_, count in told(task)] == [10]
