"""Which report counts, in which state of the run, and what it makes of it."""

from datetime import timedelta

import pytest

from callbacks import receive
from callbacks.models import AsyncCallback
from cronjob.lib import clock
from runs import standing, trigger
from runs.calls import Outcome
from runs.rescue import expire, lose
from runs.settle import settle
from tasks.models import Task
from tests import marks
from tests.callbacks.reports import called, given, kept, make_async, pending, post, said
from tests.factories import MINUTE, NOON, SECOND, make_run
from tests.runs.engine import claimed, failed, fresh, outcome, settled

pytestmark = marks.both

FAILED = {"status": "FAILED", "error_message": "no disk"}
AGAIN = {"max_retries": 2, "initial_delay": 1, "strategy": "fixed"}


# --- the end ------------------------------------------------------------------------------------


def test_a_success_ends_the_run_and_is_told_as_success():
    run, token = pending()
    answer = post(token)
    assert (answer.status_code, answer.json()) == (
        200,
        {"run_id": run.pk, "final_status": "SUCCESS"},
    )
    run = fresh(run)
    assert (run.status, run.slot, run.callback_deadline) == ("CALLBACK_SUCCESS", None, None)
    assert run.end_time
    assert run.template is None
    assert kept(run) == [(1, "RECEIVED", "")]


def test_a_failure_ends_the_run_with_what_the_target_says_of_it():
    run, token = pending(retry_policy=AGAIN)
    assert said(post(token, FAILED)) == (200, "FAILED")
    run = fresh(run)
    assert (run.status, run.error_kind, run.error_message) == ("FAILED", "callback", "no disk")
    assert kept(run) == [(1, "RECEIVED", "")]


def test_a_failure_is_tried_again_only_where_the_policy_says_so():
    policy = AGAIN | {"retry_on_callback_failure": True}
    run, token = pending(retry_policy=policy)
    assert said(post(token, FAILED)) == (200, None)
    run = fresh(run)
    assert (run.status, run.slot is None) == ("RETRYING", False)
    (entry,) = run.attempts
    assert (entry["error_kind"], entry["error_message"]) == ("callback", "no disk")
    assert run.next_retry_time == run.ready_at
    assert run.next_retry_time - clock.now() <= SECOND
    (run,) = claimed(run.ready_at)
    assert run.attempt == 2
    settled(run, outcome, asynchronous=True)
    last = given(run)
    assert said(post(last, FAILED)) == (200, None)
    (run,) = claimed(fresh(run).ready_at)
    settled(run, outcome, asynchronous=True)
    assert said(post(given(run), FAILED)) == (200, "FAILED")  # its retries are spent


def test_a_failure_of_a_disabled_task_is_not_tried_again():
    task = make_async(retry_policy=AGAIN | {"retry_on_callback_failure": True})
    run, token = pending(task)
    standing.disable(task, reason="", now=NOON)
    assert said(post(token, FAILED)) == (200, "FAILED")
    assert fresh(run).reason == "disabled"


def test_a_report_of_a_deleted_task_counts():
    task = make_async()
    _run, token = pending(task)
    standing.delete(task, now=NOON)
    assert said(post(token)) == (200, "SUCCESS")


def test_the_slot_is_free_at_once_for_whoever_waits_for_it():
    task = make_async(max_concurrency=1)
    _, token = pending(task)
    waiting = make_run(task=task, moment=NOON)
    assert claimed() == []
    assert fresh(waiting).ready_at is None
    post(token)
    assert fresh(waiting).ready_at is not None


@pytest.fixture
def wakes(monkeypatch):
    """How often the schedulers were told of something; `clear` it once the run is there."""
    told = []
    monkeypatch.setattr(receive.wakeup, "schedulers", lambda: told.append(1))
    return told


def test_schedulers_hear_of_a_failure_that_is_tried_again(wakes):
    _, token = pending(retry_policy=AGAIN | {"retry_on_callback_failure": True})
    wakes.clear()
    post(token, FAILED)
    assert len(wakes) == 1


def test_schedulers_hear_of_a_slot_that_somebody_may_have_now(wakes):
    task = make_async(max_concurrency=1)
    _, token = pending(task)
    make_run(task=task, moment=NOON)
    assert claimed() == []
    wakes.clear()
    post(token)
    assert len(wakes) == 1


def test_schedulers_hear_nothing_of_a_report_that_nobody_waits_for(wakes):
    _, token = pending()
    wakes.clear()
    for says in ("RUNNING", "SUCCESS", "FAILED"):
        post(token, {"status": says})
    assert wakes == []


# --- before our own answer ----------------------------------------------------------------------


def test_a_success_before_our_own_answer_counts_and_what_was_sent_is_kept_all_the_same():
    run, token = called()
    assert said(post(token)) == (200, "SUCCESS")
    ended = fresh(run)
    assert ended.status == "CALLBACK_SUCCESS"
    assert not settled(run, outcome, asynchronous=True, code=202, method="PUT")
    now = fresh(run)
    assert (now.status, now.end_time) == ("CALLBACK_SUCCESS", ended.end_time)
    assert (now.response_code, now.request_method, now.callback_deadline) == (202, "PUT", None)


@pytest.mark.parametrize("says", ["SUCCESS", "FAILED"])
def test_an_end_before_our_own_answer_shows_nothing_of_the_attempt_before(says):
    run, _ = called(retry_policy=AGAIN)
    settled(run, failed, response_body="busy", response_headers={"X": "1"}, timings={"total_ms": 1})
    assert fresh(run).response_code == 503
    post(given(again(run)), {"status": says})
    run = fresh(run)
    assert (run.response_code, run.response_body, run.response_headers) == (None, "", {})
    assert (run.request_method, run.timings) == ("", {})


def test_a_failure_before_our_own_answer_counts():
    run, token = called()
    assert said(post(token, FAILED)) == (200, "FAILED")
    assert not settled(run, outcome, asynchronous=True, code=202)
    assert (fresh(run).status, fresh(run).response_code) == ("FAILED", 202)


def test_an_answer_that_comes_after_a_cancel_changes_nothing():
    run, _ = called()
    trigger.cancel(run, reason="", now=NOON)
    assert not settled(run, outcome, asynchronous=True, code=202)
    assert (fresh(run).status, fresh(run).response_code) == ("CANCELED", None)


# --- over already -------------------------------------------------------------------------------


@pytest.mark.parametrize("body", [{"status": "SUCCESS"}, FAILED, {"status": "RUNNING"}])
def test_a_report_on_a_run_that_is_over_is_told_how_it_ended(body):
    run, token = pending()
    post(token)
    ended = fresh(run)
    assert said(post(token, body)) == (200, "SUCCESS")
    assert fresh(run) == ended
    assert fresh(run).updated_at == ended.updated_at
    assert kept(run)[1:] == [(1, "IGNORED", "The run was CALLBACK_SUCCESS already.")]


def test_a_report_on_a_canceled_run_is_told_so():
    run, token = pending()
    trigger.cancel(run, reason="", now=NOON)
    assert said(post(token)) == (200, "CANCELED")
    assert kept(run) == [(1, "IGNORED", "The run was CANCELED already.")]


def test_a_report_after_the_deadline_is_told_so():
    _run, token = pending()
    expire(NOON + MINUTE)
    assert said(post(token)) == (200, "FAILED_TIMEOUT")


def test_a_report_at_the_deadline_that_nobody_swept_yet_counts():
    _run, token = pending(now=clock.now() - 2 * MINUTE)
    assert said(post(token)) == (200, "SUCCESS")
    assert expire(clock.now()) == 0


# --- earlier attempts ---------------------------------------------------------------------------


def again(run):
    """Its next attempt is under way."""
    (run,) = claimed(fresh(run).ready_at)
    return run


def test_a_success_on_the_token_of_an_earlier_attempt_ends_the_run():
    run, first = called(retry_policy=AGAIN)
    settled(run, failed)
    assert fresh(run).status == "RETRYING"
    assert said(post(first)) == (200, "SUCCESS")
    assert (fresh(run).status, fresh(run).error_message) == ("CALLBACK_SUCCESS", "")
    assert claimed(NOON + MINUTE) == []


def test_a_success_on_an_earlier_token_ends_a_run_that_is_being_called_again():
    run, first = called(retry_policy=AGAIN)
    settled(run, failed)
    run = again(run)
    given(run)
    assert said(post(first)) == (200, "SUCCESS")
    assert not settled(run, outcome, asynchronous=True)
    assert fresh(run).status == "CALLBACK_SUCCESS"


@pytest.mark.parametrize("open", ["retrying", "running", "pending"])
@pytest.mark.parametrize("says", ["FAILED", "RUNNING"])
def test_a_failure_of_an_earlier_attempt_is_gone_while_the_run_is_open(open, says):
    run, first = called(retry_policy=AGAIN)
    settled(run, failed)
    if open != "retrying":
        run = again(run)
    if open == "pending":
        settled(run, outcome, asynchronous=True)
    before = fresh(run)
    assert said(post(first, {"status": says})) == (410, "GONE")
    assert fresh(run).status == before.status
    ((attempt, status, reason),) = kept(run)
    assert (attempt, status) == (1, "IGNORED")
    assert reason == f"Attempt 1 was over; the run is {before.status}."


# --- lost attempts ------------------------------------------------------------------------------


def test_the_callback_of_an_attempt_whose_process_died_ends_the_run():
    run, token = called(on_lost="FAIL")
    lose([run], now=NOON)
    assert fresh(run).status == "CALLBACK_PENDING"
    assert said(post(token)) == (200, "SUCCESS")


def test_the_callback_of_a_lost_attempt_that_will_be_made_again_ends_the_run():
    run, token = called(on_lost="RETRY")
    settle([(run, Outcome.of_lost(run, "died"))], now=NOON)
    assert fresh(run).status == "RETRYING"
    assert said(post(token)) == (200, "SUCCESS")


# --- how far it is ------------------------------------------------------------------------------


def test_progress_is_shown_and_moves_no_deadline():
    run, token = pending()
    told = {"status": "RUNNING", "progress": 0.4, "message": "rows 1 to 40"}
    assert said(post(token, told)) == (200, None)
    now = fresh(run)
    assert (now.status, now.progress, now.progress_message) == (
        "CALLBACK_PENDING", 0.4, "rows 1 to 40",
    )  # fmt: skip
    assert now.callback_deadline == run.callback_deadline
    post(token, {"status": "RUNNING"})
    assert fresh(run).progress == 0.4
    assert kept(run) == []


def test_progress_before_our_own_answer_is_kept():
    run, token = called()
    assert said(post(token, {"status": "RUNNING", "progress": 0.1})) == (200, None)
    settled(run, outcome, asynchronous=True)
    assert (fresh(run).status, fresh(run).progress) == ("CALLBACK_PENDING", 0.1)


def test_progress_that_asks_for_it_moves_the_deadline_by_the_time_a_callback_has():
    run, token = pending()
    for number in range(1, 15):
        assert said(post(token, {"status": "RUNNING", "extend": True})) == (200, None)
        moved = fresh(run).callback_deadline - run.callback_deadline
        assert moved == min(number, 9) * MINUTE  # ten times a minute in all, and no more


def test_more_time_is_never_less_though_the_task_allows_less_by_now():
    run, token = pending()
    Task.objects.filter(pk=run.task_id).update(callback_timeout_sec=1)
    assert said(post(token, {"status": "RUNNING", "extend": True})) == (200, None)
    assert fresh(run).callback_deadline == run.callback_deadline


def test_progress_is_told_until_when_its_end_is_awaited():
    run, token = called()
    more = {"status": "RUNNING", "extend": True}
    told = {"run_id": run.pk, "final_status": None}
    assert post(token, more).json() == told | {"callback_deadline": None}  # and nothing was moved
    settled(run, outcome, asynchronous=True)
    assert post(token, {"status": "RUNNING"}).json() == told | {
        "callback_deadline": "2026-01-01T12:01:00Z"
    }
    assert post(token, more).json()["callback_deadline"] == "2026-01-01T12:02:00Z"


def test_a_run_that_asked_for_more_time_is_not_ended_at_its_old_deadline():
    _run, token = pending()
    post(token, {"status": "RUNNING", "extend": True})
    assert expire(NOON + MINUTE) == 0
    assert expire(NOON + 2 * MINUTE) == 1


def test_the_next_attempt_begins_without_progress():
    run, token = pending(retry_policy=AGAIN | {"retry_on_callback_failure": True})
    post(token, {"status": "RUNNING", "progress": 0.9, "message": "nearly"})
    post(token, FAILED)
    run = again(run)
    assert (fresh(run).progress, fresh(run).progress_message) == (None, "")


# --- the sweep ----------------------------------------------------------------------------------


def test_the_sweep_ends_what_is_late_says_so_and_frees_its_slot(caplog):
    task = make_async(max_concurrency=1)
    run, _ = pending(task)
    waiting = make_run(task=task, moment=NOON)
    claimed()
    assert expire(NOON + MINUTE - timedelta(milliseconds=1)) == 0
    assert expire(NOON + MINUTE) == 1
    run = fresh(run)
    assert (run.status, run.error_kind, run.slot) == ("FAILED_TIMEOUT", "callback", None)
    assert run.reason == "no callback came in time"
    (line,) = [record for record in caplog.records if record.action == "settle"][1:]
    told = (line.run_id, line.status, line.trace_id, line.err)
    assert told == (run.pk, "FAILED_TIMEOUT", run.trace_id, "no callback came in time")
    assert fresh(waiting).ready_at is not None
    assert AsyncCallback.objects.count() == 0


def test_the_sweep_costs_the_same_few_statements_however_many_are_late(
    django_assert_max_num_queries,
):
    for _ in range(30):
        pending()
    with django_assert_max_num_queries(6):
        assert expire(NOON + MINUTE) == 30
