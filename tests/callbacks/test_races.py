"""Reports that meet something else at the same instant, with real threads and real commits.

RACE_ROUNDS=3000 runs each race so often on PostgreSQL, and a tenth of it on SQLite; who came first
how often is told in the file of --junitxml.
"""

from copy import copy

import pytest

from runs import standing
from runs.rescue import expire, rescue
from runs.states import Status
from tests import marks
from tests.callbacks.racing import (
    canceled,
    moves,
    patient,
    pending,
    racing,
    report,
    retrying,
    running,
)
from tests.callbacks.reports import given, kept
from tests.factories import MINUTE, NOON, SECOND, make_api, make_run
from tests.runs.engine import claimed, failed, fresh, outcome, settled

pytestmark = marks.committing

SAYS = ("SUCCESS", "FAILED")
AGAIN = {"max_retries": 2, "initial_delay": 1, "strategy": "fixed"}
REPORTED_TOO = AGAIN | {"retry_on_callback_failure": True}
STORED = {"SUCCESS": Status.CALLBACK_SUCCESS, "FAILED": Status.FAILED}


@pytest.fixture
def race(request, record_property, transactional_db):
    with racing(seed=request.node.name) as race:
        yield race
        record_property("came first", dict(race.winners))


def answered(run, code):
    """Our own answer comes."""
    run = copy(run)
    what = outcome if code == 202 else failed
    return patient(settled, run, what, asynchronous=True, code=code)


# --- our own answer -----------------------------------------------------------------------------


@pytest.mark.parametrize("says", SAYS)
def test_a_report_and_our_own_2xx_leave_what_was_reported(race, says):
    for run, token in race.rounds(running):
        told, ours = race(report(token, says), answered(run, 202))
        race.came_first("answer", ours)
        run = race.checked(run, token, told)
        assert (run.status, told.final) == (STORED[says], says)
        assert run.response_code == 202  # what was answered is known whoever came first
        assert ((Status.RUNNING, Status.CALLBACK_PENDING) in moves(run)) == ours


@pytest.mark.parametrize("says", SAYS)
def test_a_report_and_our_own_503_leave_the_end_of_who_came_first(race, says):
    for run, token in race.rounds(running):
        told, ours = race(report(token, says), answered(run, 503))
        race.came_first("answer", ours)
        run = race.checked(run, token, told)
        assert run.status == (Status.FAILED if ours else STORED[says])
        assert run.error_kind == ("http" if ours else "callback" if says == "FAILED" else "")


@pytest.mark.parametrize("code", [202, 503])
def test_a_failure_that_is_tried_again_and_our_own_answer_are_one_try_between_them(race, code):
    for run, token in race.rounds(running, retry_policy=REPORTED_TOO):
        told, ours = race(report(token, "FAILED"), answered(run, code))
        race.came_first("answer", ours)
        run = race.checked(run, token, told)
        failed_by_itself = ours and code == 503
        assert (run.status, told.final) == (Status.RETRYING, "GONE" if failed_by_itself else None)
        (entry,) = run.attempts
        assert entry["error_kind"] == ("http" if failed_by_itself else "callback")
        assert run.response_code == code


# --- the sweep ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("says", "policy", "left"),
    [
        ("SUCCESS", AGAIN, Status.CALLBACK_SUCCESS),
        ("FAILED", AGAIN, Status.FAILED),
        ("FAILED", REPORTED_TOO, Status.RETRYING),
    ],
    ids=["success", "failure", "failure tried again"],
)
def test_a_report_at_the_deadline_counts_or_is_told_that_it_came_too_late(race, says, policy, left):
    for run, token in race.rounds(pending, retry_policy=policy):
        told, swept = race(report(token, says), patient(expire, run.callback_deadline))
        race.came_first("sweep", swept)
        run = race.checked(run, token, told)
        assert run.status == (Status.FAILED_TIMEOUT if swept else left)
        in_time = None if left == Status.RETRYING else says
        assert told.final == ("FAILED_TIMEOUT" if swept else in_time)


def test_more_time_is_given_or_was_over_and_never_both(race):
    for run, token in race.rounds(pending):
        deadline, more = run.callback_deadline, report(token, "RUNNING", extend=True)
        told, swept = race(more, patient(expire, deadline))
        race.came_first("sweep", swept)
        run = race.checked(run, token, told)
        if swept:
            assert (told.final, run.status) == ("FAILED_TIMEOUT", Status.FAILED_TIMEOUT)
        else:
            assert (told.final, run.status) == (None, Status.CALLBACK_PENDING)
            assert run.callback_deadline == deadline + MINUTE


# --- two reports --------------------------------------------------------------------------------


def test_of_a_success_and_a_failure_the_first_holds_and_both_are_told_so(race):
    for run, token in race.rounds(running, pending):
        told = race(report(token, "SUCCESS"), report(token, "FAILED"))
        run = race.checked(run, token, *told)
        race.came_first("other report", run.status == Status.FAILED)
        assert [STORED[one.final] for one in told] == [run.status, run.status]


def test_of_two_attempts_that_end_differently_the_first_to_report_holds(race):
    """Each has its own token, so that only the run itself is what both need."""
    for run, first in race.rounds(retrying, retry_policy=AGAIN):
        (again,) = claimed(run.ready_at)
        second = given(again)
        told = race(report(first, "SUCCESS"), report(second, "FAILED"))
        run = race.checked(run, second, *told)
        race.came_first("other report", run.status == Status.FAILED)
        assert [STORED[one.final] for one in told] == [run.status, run.status]


def test_of_a_report_by_token_and_one_by_ids_the_first_holds(race):
    api = make_api("operate")
    for run, token in race.rounds(running, pending):
        ids = {"task_id": run.task_id, "run_id": run.pk}
        told = race(report(token, "SUCCESS"), report("", "FAILED", api=api, **ids))
        run = race.checked(run, token, *told)
        race.came_first("report by ids", run.status == Status.FAILED)
        assert [STORED[one.final] for one in told] == [run.status, run.status]


def test_a_success_holds_before_and_after_a_failure_that_is_tried_again(race):
    for run, token in race.rounds(pending, retry_policy=REPORTED_TOO):
        success, failure = race(report(token, "SUCCESS"), report(token, "FAILED"))
        again = (Status.CALLBACK_PENDING, Status.RETRYING) in moves(run)
        race.came_first("failure", again)
        run = race.checked(run, token, success, failure)
        assert (run.status, success.final) == (Status.CALLBACK_SUCCESS, "SUCCESS")
        assert failure.final == (None if again else "SUCCESS")


# --- people -------------------------------------------------------------------------------------


def test_a_report_and_a_cancel_leave_the_end_of_who_came_first(race):
    for run, token in race.rounds(running, pending, retrying, retry_policy=AGAIN):
        says = "SUCCESS" if run.status == Status.RETRYING else race.dice.choice(SAYS)
        told, taken_back = race(report(token, says), patient(canceled, copy(run), now=NOON))
        race.came_first("cancel", taken_back)
        run = race.checked(run, token, told)
        assert run.status == (Status.CANCELED if taken_back else STORED[says])


def gone(run, verb):
    """Its task is taken away."""
    reason = {"reason": ""} if verb == "disable" else {}
    return patient(getattr(standing, verb), copy(run.task), now=NOON, **reason)


@pytest.mark.parametrize("verb", ["disable", "delete"])
def test_a_success_counts_though_its_task_goes(race, verb):
    states = (running, pending, retrying)
    for run, token in race.rounds(*states, each_its_own=True, retry_policy=AGAIN):
        before = run.status
        told, _ = race(report(token, "SUCCESS"), gone(run, verb))
        run = race.checked(run, token, told)
        if before == Status.RETRYING:
            race.came_first(verb, run.status == Status.CANCELED)
        if run.status == Status.CANCELED:
            assert (before, run.reason) == (Status.RETRYING, f"{verb}d")
        else:
            assert run.status == Status.CALLBACK_SUCCESS


@pytest.mark.parametrize("verb", ["disable", "delete"])
def test_a_failure_is_not_tried_again_once_its_task_is_gone(race, verb):
    for run, token in race.rounds(pending, each_its_own=True, retry_policy=REPORTED_TOO):
        told, _ = race(report(token, "FAILED"), gone(run, verb))
        run = race.checked(run, token, told)
        race.came_first(verb, run.status == Status.FAILED)
        assert run.status in (Status.CANCELED, Status.FAILED)
        assert run.reason == f"{verb}d"
        assert told.final == (None if run.status == Status.CANCELED else "FAILED")


# --- the next attempt ---------------------------------------------------------------------------


@pytest.mark.parametrize("says", SAYS)
def test_a_report_of_an_earlier_attempt_and_the_claim_of_the_next(race, says):
    for run, token in race.rounds(retrying, retry_policy=AGAIN):
        told, taken = race(report(token, says), patient(claimed, run.ready_at))
        run = race.checked(run, token, told)
        if says == "FAILED":
            ((*_, reason),) = kept(run)
            race.came_first("claim", reason == "Attempt 1 was over; the run is RUNNING.")
            assert (told.code, run.status) == (410, "RUNNING" if taken else "RETRYING")
        else:
            race.came_first("claim", taken)
            assert (told.final, run.status) == ("SUCCESS", Status.CALLBACK_SUCCESS)
            assert not any(settled(late, asynchronous=True) for late in taken)
            assert ((Status.RETRYING, Status.RUNNING) in moves(run)) == bool(taken)


@pytest.mark.parametrize("code", [202, 503])
def test_a_success_of_an_earlier_attempt_and_the_answer_to_the_next(race, code):
    for run, first in race.rounds(retrying, retry_policy=AGAIN):
        (again,) = claimed(run.ready_at)
        second = given(again)
        told, ours = race(report(first, "SUCCESS"), answered(again, code))
        race.came_first("answer", ours)
        run = race.checked(run, second, told)
        assert (run.status, told.final) == (Status.CALLBACK_SUCCESS, "SUCCESS")
        assert (len(moves(run)) == 5) == ours


# --- processes that died ------------------------------------------------------------------------


@pytest.mark.parametrize("on_lost", ["RETRY", "FAIL"])
@pytest.mark.parametrize("says", SAYS)
def test_a_report_and_the_rescue_of_an_attempt_that_was_lost(race, says, on_lost):
    for run, token in race.rounds(running, batch=1, on_lost=on_lost):
        told, rescued = race(report(token, says), patient(rescue, NOON + SECOND))
        race.came_first("rescue", rescued)
        run = race.checked(run, token, told)
        if rescued and (says, on_lost) == ("FAILED", "RETRY"):
            assert (told.code, run.status) == (410, Status.RETRYING)
        else:
            assert (told.final, run.status) == (says, STORED[says])
        assert run.lost == rescued


# --- who waits for the slot ---------------------------------------------------------------------


def test_who_waits_for_the_slot_of_a_run_that_is_reported_on_goes_on(race):
    for run, token in race.rounds(pending, batch=1):
        waiting = make_run(task=run.task, moment=run.moment + SECOND)
        ends = report(token, race.dice.choice(SAYS))
        told, taken = race(ends, patient(claimed, waiting.ready_at))
        race.came_first("claim", not taken)
        race.checked(run, token, told)
        waiting = fresh(waiting)
        assert [run.pk for run in taken] in ([], [waiting.pk])
        assert waiting.status == (Status.RUNNING if taken else Status.SCHEDULED)
        assert taken or waiting.ready_at
        canceled(waiting, now=NOON)
