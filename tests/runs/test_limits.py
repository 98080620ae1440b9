"""Limits that change while runs wait, and runs that wait too long for them."""

import pytest

from runs import standing, trigger
from runs.claim import tasks_that_wait, unpark
from runs.materialise import materialise
from runs.models import TaskRun
from runs.rescue import put_back
from tests import marks
from tests.factories import MINUTE, NOON, SECOND, copy, make_run, make_task
from tests.runs.engine import claimed, failed, fresh, settled

pytestmark = marks.both


def ready(task, count=1):
    return [make_run(task=task, moment=NOON - (count - n) * SECOND) for n in range(count)]


@pytest.mark.parametrize("policy", ["SKIP", "QUEUE"])
def test_what_was_started_in_parallel_counts_once_there_is_a_limit(policy):
    task = make_task(concurrency_policy="PARALLEL", max_concurrency=1)
    ready(task)
    assert len(claimed()) == 1
    task.concurrency_policy = policy
    standing.edit(task, now=NOON)
    if policy == "SKIP":
        with pytest.raises(trigger.LimitReached):
            trigger.trigger(task.pk, now=NOON)
    else:
        trigger.trigger(task.pk, now=NOON)
        assert claimed() == []


def test_a_run_that_waits_too_long_for_a_slot_is_missed():
    task = make_task(max_concurrency=1, start_deadline_seconds=10)
    first, second = ready(task, 2)
    assert [run.pk for run in claimed()] == [first.pk]
    assert fresh(second).ready_at is None
    unpark(tasks_that_wait(), NOON + 5 * SECOND)
    assert fresh(second).ready_at is None
    unpark(tasks_that_wait(), NOON + MINUTE)
    assert claimed(NOON + MINUTE) == []
    assert (fresh(second).status, fresh(second).reason) == ("MISSED", "not started in time")


def test_the_sweep_of_what_waits_comes_round_to_every_task(settings):
    settings.CRONJOB_BATCH_MAX = 2
    tasks = [make_task(max_concurrency=0, start_deadline_seconds=10) for _ in range(5)]
    runs = [ready(task)[0] for task in tasks]
    assert claimed() == []
    after = 0
    for _ in range(3):
        waiting = tasks_that_wait(after=after)
        unpark(waiting, NOON + MINUTE)
        after = waiting[-1]
    assert tasks_that_wait(after=after) == []
    claimed(NOON + MINUTE)
    assert {fresh(run).status for run in runs} == {"MISSED"}


@pytest.mark.parametrize("change", [{"max_concurrency": 2}, {"concurrency_policy": "PARALLEL"}])
def test_a_higher_limit_lets_go_at_once_what_waits_for_it(change):
    task = make_task(max_concurrency=1)
    ready(task, 2)
    assert len(claimed()) == 1
    assert claimed() == []
    for name, value in change.items():
        setattr(task, name, value)
    standing.edit(task, now=NOON)
    assert len(claimed()) == 1


@pytest.mark.parametrize("verb", ["edit", "enable"])
def test_no_moment_is_recorded_twice_when_the_clock_steps_back_before_a_change(verb):
    task = make_task(next_run_at=NOON, misfire_grace_seconds=1)
    materialise(NOON + 5.5 * MINUTE)
    back = NOON + 1.5 * MINUTE
    task.refresh_from_db()
    if verb == "edit":
        task.end_at = NOON + 60 * MINUTE
        standing.edit(task, now=back)
    else:
        standing.disable(task, reason="", now=back)
        standing.enable(task, now=back)
    task.refresh_from_db()
    assert task.next_moment == NOON + 6 * MINUTE
    before = TaskRun.objects.count()
    materialise(NOON + 5 * MINUTE)
    assert TaskRun.objects.count() == before


def test_a_retry_from_parallel_times_is_counted_once():
    task = make_task(
        concurrency_policy="PARALLEL", retry_policy={"max_retries": 3, "initial_delay": 1}
    )
    make_run(task=task, moment=NOON - MINUTE, max_attempts=4)
    (run,) = claimed()
    settled(run, failed)
    task.concurrency_policy, task.max_concurrency = "SKIP", 2
    standing.edit(task, now=NOON)
    ready(task)
    assert len(claimed(NOON + MINUTE)) == 2
    assert not TaskRun.objects.filter(status="SKIPPED").exists()


def test_of_very_many_that_wait_as_many_go_as_there_are_places():
    task = make_task(max_concurrency=2)
    first = make_run(task=task, trigger="MANUAL", ready_at=NOON - MINUTE)
    copy(first, 500)
    TaskRun.objects.update(ready_at=None)
    assert unpark([task.pk], NOON) == 2
    assert len(claimed()) == 2


@pytest.mark.parametrize("verb", ["disable", "delete"])
def test_what_is_put_back_after_its_task_was_given_up_is_not_called_again(verb):
    task = make_task()
    ready(task)
    (run,) = claimed()
    getattr(standing, verb)(task, now=NOON, **({"reason": ""} if verb == "disable" else {}))
    put_back(run, now=NOON)
    assert claimed(NOON + SECOND) == []
    assert (fresh(run).status, fresh(run).reason) == ("CANCELED", f"{verb}d")


def test_catching_up_goes_from_the_oldest_to_the_newest_however_few_are_looked_at():
    task = make_task()
    runs = [
        make_run(task=task, moment=NOON - (5 - n) * SECOND, trigger="CATCH_UP") for n in range(5)
    ]
    called = []
    for _ in range(5):
        (run,) = claimed(room=2)
        called.append(run.pk)
        settled(run)
    assert called == [run.pk for run in runs]


def test_what_comes_later_does_not_overtake_what_waits_for_a_slot():
    task = make_task(max_concurrency=1)
    make_run(task=task, moment=NOON - 3 * SECOND)
    second = make_run(task=task, moment=NOON - 2 * SECOND)
    (run,) = claimed()
    third = make_run(task=task, moment=NOON - SECOND)
    settled(run)
    (run,) = claimed()
    assert run.pk == second.pk
    settled(run)
    (run,) = claimed()
    assert run.pk == third.pk


def test_of_two_that_became_ready_the_older_goes_first_though_only_the_newer_is_seen():
    task = make_task(max_concurrency=1)
    older = make_run(task=task, moment=NOON - 2 * SECOND, ready_at=NOON + SECOND)
    newer = make_run(task=task, moment=NOON - SECOND)
    assert claimed() == []
    (run,) = claimed(NOON + SECOND)
    assert run.pk == older.pk
    settled(run)
    (run,) = claimed(NOON + SECOND)
    assert run.pk == newer.pk
