"""The verbs of the engine against each other, with real threads and real commits."""

import threading
from collections import Counter
from functools import partial
from itertools import count

import pytest
from django.db import OperationalError, connection

from runs import trigger
from runs.materialise import materialise
from runs.models import TaskRun
from runs.rescue import rescue
from runs.states import FINAL, OCCUPYING, Status, Trigger
from tests import marks
from tests.factories import MINUTE, NOON, SECOND, make_run, make_task
from tests.runs.engine import claimed, fresh, outcome, registered, settled

pytestmark = marks.committing

THREADS = 4


def at_once(*works, times=1):
    """Run them in threads that begin together; what each of them returned."""
    gate, found, failed = threading.Barrier(len(works) * times), [], []

    def run(work):
        try:
            gate.wait(30)
            found.append(work())
        except BaseException as error:
            failed.append(error)
        finally:
            connection.close()

    threads = [threading.Thread(target=run, args=(work,)) for work in works for _ in range(times)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not failed, failed
    return found


def patiently(work):
    """SQLite may say that it is busy where PostgreSQL lets wait: again, as the scheduler does."""
    for _ in range(50):
        try:
            return work()
        except OperationalError:
            continue
    return work()


@pytest.mark.parametrize("room", [0, 100])
def test_a_due_moment_becomes_one_run_however_many_look_at_it(room):
    tasks = [make_task(next_run_at=NOON) for _ in range(30)]
    registered("a")
    look = partial(materialise, NOON, owner="a", room=room)
    found = at_once(lambda: patiently(look), times=THREADS)
    assert TaskRun.objects.count() == len(tasks)
    begun = [run.pk for made in found for run in made.begun]
    assert sorted(begun) == [*TaskRun.objects.filter(owner="a").values_list("pk", flat=True)]
    assert len(begun) == (30 if room else 0)
    assert {t.next_run_at for t in type(tasks[0]).objects.all()} == {NOON + MINUTE}


def test_a_run_is_claimed_by_one_and_no_task_goes_past_its_limit():
    tasks = [make_task(max_concurrency=2) for _ in range(5)]
    for n in range(40):
        make_run(task=tasks[n % 5], moment=NOON - (n + 1) * SECOND)
    most: Counter[int] = Counter()
    names = count()

    def work():
        mine, owner = [], f"owner {next(names)}"
        for _ in range(12):
            mine += patiently(lambda: claimed(room=3, owner=owner))
            open_runs = TaskRun.objects.filter(status__in=OCCUPYING)
            for task, number in Counter(open_runs.values_list("task_id", flat=True)).items():
                most[task] = max(most[task], number)
            for run in mine[:1]:
                patiently(lambda run=run: settled(run))
            del mine[:1]
        for run in mine:
            patiently(lambda run=run: settled(run))

    at_once(work, times=THREADS)
    while runs := claimed():
        for run in runs:
            settled(run)
    assert max(most.values()) <= 2
    assert Counter(TaskRun.objects.values_list("status", "attempt")) == {("SUCCESS", 1): 40}


def test_of_triggers_under_skip_only_as_many_are_made_as_there_are_slots():
    task = make_task(concurrency_policy="SKIP", max_concurrency=2)

    def ask():
        try:
            return trigger.trigger(task.pk, now=NOON).pk
        except trigger.LimitReached:
            return None

    made = [pk for pk in at_once(lambda: patiently(ask), times=8) if pk]
    assert len(made) == TaskRun.objects.count() == 2


@pytest.mark.parametrize("policy", ["QUEUE", "SKIP"])
def test_of_what_is_due_and_what_is_asked_for_meanwhile_one_gets_the_last_slot(policy):
    tasks = [make_task(next_run_at=NOON, concurrency_policy=policy) for _ in range(20)]
    registered("a")

    def ask():
        for task in tasks:
            try:
                patiently(lambda task=task: trigger.trigger(task.pk, now=NOON))
            except trigger.LimitReached:
                assert policy == "SKIP"

    at_once(
        lambda: patiently(lambda: materialise(NOON, owner="a", room=100)), ask,
        lambda: [patiently(lambda: claimed(room=3, owner="b")) for _ in range(10)],
    )  # fmt: skip
    assert TaskRun.objects.filter(trigger=Trigger.SCHEDULE).count() == len(tasks)
    for task in tasks:
        taken = [run for run in task.runs.all() if run.slot or run.status in OCCUPYING]
        assert len(taken) <= 1


@pytest.mark.parametrize("round_", range(5))
def test_an_answer_a_cancel_and_a_rescue_leave_one_end(round_):
    make_run(task=make_task(timeout_seconds=1), moment=NOON - SECOND)
    (run,) = claimed()

    def cancel():
        try:
            trigger.cancel(fresh(run), reason="enough", now=NOON + MINUTE)
            return "canceled"
        except trigger.NotPossible:
            return None

    def answer():
        return "answered" if settled(run, outcome, now=NOON + MINUTE) else None

    def rescued():
        return "rescued" if rescue(NOON + MINUTE) else None

    told = [t for t in at_once(*(lambda w=w: patiently(w) for w in (cancel, answer, rescued))) if t]
    kept = fresh(run)
    if "answered" in told:
        assert (kept.status, told) == ("SUCCESS", ["answered"])
    else:
        assert kept.status in (Status.CANCELED, Status.RETRYING)
    assert (kept.end_time is not None) == (kept.status in FINAL)


def test_a_queue_never_stops_while_its_slot_is_free():
    """A claim that parks a run and a settle that frees its slot pass each other."""
    task = make_task(concurrency_policy="QUEUE", max_concurrency=1)
    for n in range(30):
        make_run(task=task, moment=NOON - (n + 1) * SECOND)
    left = threading.Event()

    def work():
        for _ in range(400):
            for run in patiently(lambda: claimed(room=5)):
                patiently(lambda run=run: settled(run))
            if not TaskRun.objects.filter(end_time=None).exists():
                left.set()
                break

    at_once(work, times=THREADS)
    assert left.is_set(), Counter(TaskRun.objects.values_list("status", "ready_at"))
