"""The end of an attempt: success, failure, retries, loss; and who comes too late."""

from datetime import timedelta

import pytest
from django.db import connection

from runs import calls
from runs.calls import Outcome
from runs.rescue import put_back, rescue
from runs.settle import settle, settle_each
from runs.states import Status
from tests import marks
from tests.factories import MINUTE, NOON, SECOND, make_run, make_task
from tests.runs.engine import claimed, failed, fresh, outcome, registered, settled

pytestmark = marks.both

FIXED = {"max_retries": 2, "initial_delay": 10, "strategy": "fixed", "max_delay": 60}


def running(**fields):
    policy = fields.setdefault("retry_policy", FIXED)
    task = make_task(**fields)
    make_run(task=task, moment=NOON - SECOND, max_attempts=policy["max_retries"] + 1)
    (run,) = claimed()
    return run


def lost(run):
    return Outcome.of_lost(run, "its process died")


def test_a_2xx_ends_the_run_with_all_that_was_sent_and_received():
    run = running()
    answer = {
        "headers": {"A": "1"}, "body": "sent", "response_headers": {"B": "2"},
        "response_body": "got", "timings": {"total_ms": 5},
    }  # fmt: skip
    assert settled(run, now=NOON + SECOND, **answer)
    kept = fresh(run)
    assert (kept.status, kept.response_code, kept.end_time) == ("SUCCESS", 200, NOON + SECOND)
    assert (kept.request_method, kept.request_url, kept.request_body) == (
        "GET",
        "http://x/",
        "sent",
    )
    assert (kept.request_headers, kept.response_headers) == ({"A": "1"}, {"B": "2"})
    assert (kept.response_body, kept.timings) == ("got", {"total_ms": 5})
    assert (kept.slot, kept.deadline_at, kept.attempts) == (None, None, [])


def test_a_failure_is_tried_again_until_the_retries_are_spent():
    run = running()
    for attempt in (1, 2):
        assert settled(run, failed, now=NOON + attempt * MINUTE)
        kept = fresh(run)
        assert (kept.status, kept.attempt) == ("RETRYING", attempt)
        assert kept.next_retry_time == kept.ready_at == NOON + attempt * MINUTE + 10 * SECOND
        (run,) = claimed(NOON + attempt * MINUTE + 10 * SECOND)
    assert settled(run, failed, now=NOON + 3 * MINUTE)
    kept = fresh(run)
    assert (kept.status, kept.attempt, kept.next_retry_time) == ("FAILED", 3, None)
    assert [entry["attempt"] for entry in kept.attempts] == [1, 2]
    assert kept.attempts[0] == {
        "attempt": 1, "start_time": "2026-01-01T12:00:00Z", "end_time": "2026-01-01T12:01:00Z",
        "response_code": 503, "error_kind": "http", "error_message": "503",
    }  # fmt: skip


@pytest.mark.parametrize(("kind", "status"), [("timeout", "TIMEOUT"), ("connect", "FAILED")])
def test_a_deadline_at_the_last_attempt_is_a_timeout_everything_else_a_failure(kind, status):
    run = running(retry_policy=FIXED | {"max_retries": 0})
    settled(run, failed, kind=kind, code=None)
    assert (fresh(run).status, fresh(run).error_kind) == (status, kind)


def test_a_4xx_is_final_at_once():
    run = running()
    settled(run, failed, code=404)
    assert fresh(run).status == "FAILED"


def test_retry_after_is_a_lower_bound():
    run = running()
    settled(run, failed, code=429, retry_after=90.0)
    assert fresh(run).next_retry_time == NOON + 90 * SECOND


@pytest.mark.parametrize(
    ("change", "reason"), [({"status": "DISABLED"}, "disabled"), ({"deleted": True}, "deleted")]
)
def test_a_task_disabled_or_deleted_meanwhile_is_not_tried_again(change, reason):
    run = running()
    type(run.task).objects.update(**change)
    settled(run, failed)
    assert (fresh(run).status, fresh(run).reason) == ("FAILED", reason)


def test_the_2xx_of_an_asynchronous_call_waits_for_the_callback():
    run = running(exec_type="ASYNC", callback_timeout_sec=60)
    settled(run, asynchronous=True)
    kept = fresh(run)
    assert (kept.status, kept.callback_deadline) == ("CALLBACK_PENDING", NOON + MINUTE)
    assert kept.slot == 1


# --- too late -------------------------------------------------------------------------------------


def test_a_late_answer_cannot_overwrite_a_rescued_run():
    zombie = running(timeout_seconds=5)
    rescue(NOON + MINUTE)
    (again,) = claimed(NOON + 2 * MINUTE, owner="b")
    assert not settled(zombie, now=NOON + 2 * MINUTE)
    kept = fresh(again)
    assert (kept.status, kept.attempt, kept.owner) == (Status.RUNNING, 2, "b")


@pytest.mark.parametrize("status", ["CANCELED", "SUCCESS", "FAILED"])
def test_an_answer_after_the_end_changes_nothing(status):
    run = running()
    assert fresh(run).transition(Status(status), now=NOON)
    before = fresh(run).__dict__ | {"_state": None}
    assert not settled(run, now=NOON + MINUTE)
    assert fresh(run).__dict__ | {"_state": None} == before


# --- lost -----------------------------------------------------------------------------------------


def test_a_lost_attempt_is_made_again_without_spending_a_retry():
    run = running(retry_policy=FIXED | {"max_retries": 0})
    for n in range(1, 4):
        settle([(run, lost(run))], now=NOON + n * MINUTE)
        kept = fresh(run)
        assert (kept.status, kept.lost, kept.error_kind) == ("RETRYING", n, "lost")
        (run,) = claimed(NOON + n * MINUTE + 5 * SECOND)
    settle([(run, lost(run))], now=NOON + 5 * MINUTE)
    assert (fresh(run).status, fresh(run).reason) == ("FAILED", "lost")


def test_a_lost_attempt_may_be_followed_by_ordinary_retries():
    run = running(retry_policy=FIXED | {"max_retries": 1})
    settle([(run, lost(run))], now=NOON)
    (run,) = claimed(NOON + MINUTE)
    settled(run, failed, now=NOON + MINUTE)
    (run,) = claimed(NOON + 2 * MINUTE)
    settled(run, failed, now=NOON + 2 * MINUTE)
    assert (fresh(run).status, fresh(run).attempt, fresh(run).lost) == ("FAILED", 3, 1)


def test_on_lost_fail_calls_at_most_once():
    run = running(on_lost="FAIL")
    settle([(run, lost(run))], now=NOON)
    assert (fresh(run).status, fresh(run).error_kind) == ("FAILED", "lost")


def test_a_lost_asynchronous_attempt_under_fail_waits_for_its_callback():
    run = running(on_lost="FAIL", exec_type="ASYNC")
    settle([(run, lost(run))], now=NOON)
    assert fresh(run).status == "CALLBACK_PENDING"


def test_what_was_never_sent_goes_back_as_if_it_had_not_been_claimed():
    run = running()
    assert put_back(run, now=NOON + SECOND)
    kept = fresh(run)
    assert (kept.status, kept.attempt, kept.fence, kept.owner) == ("SCHEDULED", 0, 2, None)
    assert kept.ready_at == NOON + SECOND
    assert kept.template is None  # the newest task is what it asks for


def test_what_was_tried_before_goes_back_to_be_tried_again():
    run = running()
    settled(run, failed)
    (run,) = claimed(NOON + MINUTE)
    assert put_back(run, now=NOON + MINUTE)
    assert (fresh(run).status, fresh(run).attempt, fresh(run).slot) == ("RETRYING", 1, 1)


# --- what it costs --------------------------------------------------------------------------------


def test_a_batch_costs_the_same_few_statements_whatever_its_size(django_assert_max_num_queries):
    for _ in range(20):
        make_run(task=make_task(), moment=NOON - SECOND)
    registered("a")
    most = 16 if connection.vendor == "postgresql" else 60  # SQLite is asked row by row
    with django_assert_max_num_queries(most + 2):  # the test asks for owners and ages
        runs = claimed()
        answers = [(run, calls.outcome(calls.prepare(run, now=NOON), None)) for run in runs]
        assert len(settle(answers, now=NOON)) == 20


# --- what cannot be kept --------------------------------------------------------------------------


def test_an_answer_that_no_database_keeps_spoils_its_own_run_only():
    tasks = [make_task(retry_policy=FIXED | {"max_retries": 0}) for _ in range(3)]
    for task in tasks:
        make_run(task=task, moment=NOON - timedelta(seconds=1))
    runs = claimed()
    answers = [(run, outcome(run)) for run in runs]
    answers[1] = (runs[1], outcome(runs[1], code=2**40))
    settle_each(answers)
    kept = [fresh(run).status for run in runs]
    assert kept[0] == kept[2] == "SUCCESS"
    assert kept[1] in ("FAILED", "SUCCESS")  # SQLite keeps any number


def test_an_accepted_call_whose_answer_no_database_keeps_waits_for_its_callback():
    make_run(task=make_task(exec_type="ASYNC"), moment=NOON - timedelta(seconds=1))
    (run,) = claimed()
    settle_each([(run, outcome(run, asynchronous=True, code=202, response_headers={(): ""}))])
    assert (fresh(run).status, fresh(run).response_code) == ("CALLBACK_PENDING", 202)
    assert fresh(run).error_message == "the database cannot keep the answer"
