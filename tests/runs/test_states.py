import pytest
from django.db import IntegrityError, transaction

from runs.models import TaskRun
from runs.states import FINAL, OCCUPYING, TRANSITIONS, IllegalTransition, Status
from tests import marks
from tests.factories import MINUTE, NOON, SECOND, make_run, make_task

pytestmark = marks.both

# What a state needs besides its name.
NEEDS = {
    Status.RUNNING: {"deadline_at": NOON + MINUTE},
    Status.CALLBACK_PENDING: {"callback_deadline": NOON + MINUTE},
    Status.RETRYING: {"next_retry_time": NOON + MINUTE, "ready_at": NOON + MINUTE},
}


@pytest.mark.parametrize("start", TRANSITIONS)
def test_a_run_moves_where_the_table_says_and_nowhere_else(start):
    for goal in Status:
        run = make_run(status=start)
        if goal in TRANSITIONS[start]:
            assert run.transition(goal, now=NOON, **NEEDS.get(goal, {}))
            run.refresh_from_db()
            assert run.status == goal
            assert (run.end_time == NOON) is (goal in FINAL)
        else:
            with pytest.raises(IllegalTransition):
                run.transition(goal, now=NOON)


@pytest.mark.parametrize("end", FINAL)
def test_a_final_run_moves_nowhere(end):
    run = make_run(status=end)
    for goal in Status:
        with pytest.raises(IllegalTransition):
            run.transition(goal, now=NOON)


def test_a_late_answer_cannot_overwrite_a_newer_attempt():
    run = make_run(status=Status.RUNNING, fence=1)
    zombie = TaskRun.objects.get(pk=run.pk)
    run.transition(Status.RETRYING, now=NOON, **NEEDS[Status.RETRYING])
    TaskRun.objects.filter(pk=run.pk).update(
        status=Status.RUNNING,
        fence=2,
        deadline_at=NOON + MINUTE,
        ready_at=None,
        next_retry_time=None,
    )

    assert zombie.transition(Status.SUCCESS, now=NOON + SECOND) is False
    run.refresh_from_db()
    assert (run.status, run.fence, run.end_time) == (Status.RUNNING, 2, None)


def test_a_run_lets_go_of_its_slot_and_its_deadline_when_it_ends_and_tells_who_had_it():
    run = make_run(status=Status.RUNNING, slot=1, owner="host:1:boot")
    assert run.transition(Status.SUCCESS, now=NOON)
    run.refresh_from_db()
    assert (run.slot, run.deadline_at, run.owner) == (None, None, "host:1:boot")


def test_a_run_that_is_released_unstarted_belongs_to_nobody():
    run = make_run(status=Status.RUNNING, attempt=1, fence=1, slot=1, owner="host:1:boot")
    assert run.transition(Status.SCHEDULED, now=NOON, attempt=0, ready_at=NOON)
    run.refresh_from_db()
    assert (run.slot, run.owner, run.attempt, run.fence) == (None, None, 0, 1)


def test_a_trigger_under_skip_keeps_the_slot_it_took_until_it_is_called():
    run = make_run(trigger="MANUAL", slot=1)
    assert run.transition(Status.RUNNING, now=NOON, attempt=1, deadline_at=NOON + MINUTE)
    assert run.transition(Status.SCHEDULED, now=NOON, attempt=0, ready_at=NOON)
    run.refresh_from_db()
    assert run.slot == 1


def test_a_retrying_run_keeps_its_slot_and_says_when_it_is_tried_again():
    run = make_run(status=Status.RUNNING, slot=1)
    assert run.transition(Status.RETRYING, now=NOON, **NEEDS[Status.RETRYING])
    run.refresh_from_db()
    assert (run.slot, run.next_retry_time) == (1, NOON + MINUTE)


def refused(**fields):
    with pytest.raises(IntegrityError), transaction.atomic():
        make_run(**fields)


def test_the_database_refuses_a_final_run_that_has_not_ended_and_an_open_one_that_has():
    refused(status=Status.SUCCESS, end_time=None)
    refused(status=Status.SCHEDULED, end_time=NOON)


def test_the_database_refuses_states_triggers_and_priorities_that_do_not_exist():
    refused(status="ASLEEP")
    refused(trigger="WHIM")
    refused(error_kind="mood")
    refused(priority=9)


def test_the_database_refuses_a_state_that_could_last_for_ever():
    refused(status=Status.RUNNING, deadline_at=None)
    refused(status=Status.CALLBACK_PENDING, callback_deadline=None)


def test_the_database_refuses_what_was_called_to_look_as_if_it_never_was():
    refused(status=Status.SCHEDULED, attempt=1)
    refused(status=Status.SCHEDULED, owner="host:1:boot")


def test_the_database_refuses_to_let_anything_be_claimed_that_does_not_wait():
    refused(status=Status.RUNNING, ready_at=NOON)
    refused(status=Status.SUCCESS, ready_at=NOON)
    refused(status=Status.RETRYING, next_retry_time=None)
    refused(status=Status.SCHEDULED, next_retry_time=NOON)
    assert make_run(ready_at=None).ready_at is None  # parked


def test_the_database_refuses_two_runs_for_one_request():
    run = make_run(trigger="MANUAL", request_key="abc")
    refused(task=run.task, trigger="MANUAL", request_key="abc")
    make_run(trigger="MANUAL", request_key="abc")  # of another task


def test_the_database_refuses_a_second_run_for_the_same_moment():
    run = make_run(moment=NOON)
    refused(task=run.task, moment=NOON)


def test_any_number_of_manual_runs_may_share_a_time():
    task = make_task()
    for _ in range(3):
        make_run(task=task, trigger="MANUAL", scheduled_time=NOON)
    assert task.runs.count() == 3


def test_the_database_refuses_two_runs_in_one_slot_and_a_slot_without_work():
    run = make_run(status=Status.RUNNING, slot=1)
    refused(task=run.task, status=Status.RUNNING, slot=1)
    make_run(task=run.task, status=Status.RUNNING, slot=2)
    for status in Status:
        if status not in OCCUPYING:
            refused(status=status, slot=1)


def test_a_missed_entry_says_from_when_to_when_and_how_many_or_nothing():
    refused(status=Status.MISSED, missed_count=3)
    whole = {"missed_from": NOON, "missed_to": NOON + MINUTE, "missed_count": 2}
    refused(status=Status.SUCCESS, **whole)
    run = make_run(status=Status.MISSED, missed_from=NOON, missed_to=NOON + MINUTE, missed_count=2)
    assert run.missed_count == 2
