"""Pauses: nothing fires while one stands, and what passed is recorded once."""

import pytest

from runs import claim, held, pauses, standing, trigger
from runs import materialise as making
from runs.claim import tasks_that_wait, unpark
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
    assert materialise(NOON + 5 * MINUTE).due.total() == 0  # it is held, and costs the poll nothing


def test_resuming_records_what_passed_as_one_entry_and_fires_no_backlog():
    task = due()
    pause()
    materialise(NOON + MINUTE)
    assert pauses.resume(tag=None, now=LATER)
    assert told(task) == [("MISSED", "paused", 10)]
    assert materialise(LATER).due.total() == 0
    assert materialise(NOON + 11 * MINUTE).due.total() == 1


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
    assert not TaskRun.objects.exclude(ready_at=None).exists()
    pauses.resume(tag=None, now=LATER)
    assert len(claimed(LATER)) == 2


def test_what_somebody_asks_for_still_runs():
    task = make_task()
    pause()
    run = trigger.trigger(task.pk, now=NOON)
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


def at(task):
    return Task.objects.get(pk=task.pk).next_run_at


def meanwhile(monkeypatch, module, name):
    """Somebody ends every pause just after the pauses were read."""
    right = getattr(module, name)

    def read(*arguments):
        found = right(*arguments)
        if found and Pause.objects.exists():
            pauses.resume(tag=None, now=NOON + MINUTE)
        return found

    monkeypatch.setattr(module, name, read)


def test_what_a_dead_process_did_not_let_go_of_is_swept(monkeypatch):
    tasks = [due() for _ in range(3)]
    pause(until=NOON + 5 * MINUTE)
    materialise(NOON + MINUTE)
    with monkeypatch.context() as broken:
        broken.setattr(pauses, "release", lambda now: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            pauses.end_due(LATER)
    assert [at(task) for task in tasks] == [None] * 3
    pauses.release_batch(LATER)
    assert None not in [at(task) for task in tasks]


def test_the_sweep_goes_through_what_is_held_in_batches(settings):
    settings.CRONJOB_BATCH_MAX = 2
    tasks = [due() for _ in range(3)]
    pause()
    for _ in range(2):
        materialise(NOON + MINUTE)
    first = pauses.release_batch(LATER)
    assert first == tasks[1].pk
    assert pauses.release_batch(LATER, after=first) == 0


def test_a_task_that_cannot_be_scheduled_keeps_no_other_held():
    bad, good = due(), due()
    pause()
    materialise(NOON + MINUTE)
    Task.objects.filter(pk=bad.pk).update(timezone="Atlantis/Capital")
    pauses.resume(tag=None, now=LATER)
    assert at(good) is not None
    assert Task.objects.get(pk=bad.pk).status == "DISABLED"


def test_a_pause_that_ends_while_tasks_are_being_held_holds_none(monkeypatch):
    task = due()
    pause()
    meanwhile(monkeypatch, making.held, "tags")
    materialise(NOON + MINUTE)
    assert not Pause.objects.exists()
    assert at(task) is not None


def test_a_pause_that_ends_while_a_retry_is_being_held_lets_it_go(monkeypatch):
    task = make_task(retry_policy={"max_retries": 1, "initial_delay": 5, "strategy": "fixed"})
    make_run(task=task, moment=NOON - SECOND, max_attempts=2)
    (run,) = claimed()
    settled(run, failed)
    pause()
    meanwhile(monkeypatch, claim.held, "tags")
    claimed(NOON + MINUTE)
    assert not Pause.objects.exists()
    assert fresh(run).ready_at is not None


def test_a_retry_that_nobody_let_go_of_is_swept():
    run = make_run(status="RETRYING", attempt=1, slot=1, ready_at=None)
    assert tasks_that_wait() == [run.task_id]
    unpark(tasks_that_wait(), LATER)
    assert fresh(run).ready_at == run.next_retry_time


def test_a_held_task_that_loses_the_paused_tag_fires_again():
    task = due(tags=["a"])
    pause("a")
    materialise(NOON + MINUTE)
    task.refresh_from_db()
    task.tags = []
    standing.edit(task, now=NOON + 2 * MINUTE)
    assert at(task) is not None
    assert held.tags() == {"a"}


def test_what_has_waited_too_long_rests_as_long_as_it_is_held():
    run = make_run(task=make_task(start_deadline_seconds=10), moment=NOON)
    pause()
    assert claimed(NOON + MINUTE) == []
    assert fresh(run).ready_at is None  # else it would be claimed and held round and round
    pauses.resume(tag=None, now=NOON + 2 * MINUTE)
    claimed(NOON + 2 * MINUTE)
    assert (fresh(run).status, fresh(run).reason) == ("MISSED", "not started in time")
