"""Reports by whoever has a key and knows the run; and reports on runs that are there no more."""

from callbacks import api, receive
from runs import trigger
from runs.models import TaskRun
from tests import marks
from tests.callbacks.reports import called, given, kept, make_async, pending, post, said
from tests.factories import MINUTE, NOON, SECOND, make_api, make_run
from tests.runs.engine import claimed, failed, fresh, outcome, settled

pytestmark = marks.both

AGAIN = {"max_retries": 2, "initial_delay": 1, "strategy": "fixed"}


def by_ids(run, status="SUCCESS", *, api=None, **fields):
    body = {"task_id": run.task_id, "run_id": run.pk, "status": status} | fields
    return (api or make_api("operate")).post("callbacks", body)


def test_whoever_may_operate_reports_by_ids():
    run, _ = pending()
    answer = by_ids(run)
    assert answer.json() == {"run_id": run.pk, "final_status": "SUCCESS"}
    assert fresh(run).status == "CALLBACK_SUCCESS"
    assert kept(run) == [(1, "RECEIVED", "")]
    assert said(by_ids(run, "FAILED")) == (200, "SUCCESS")


def test_a_report_by_ids_before_our_own_answer_counts():
    run, _ = called()
    assert said(by_ids(run, "FAILED", error_message="x")) == (200, "FAILED")


def test_a_run_must_be_the_one_of_the_task_that_is_named():
    run, _ = pending()
    assert said(by_ids(run, task_id=run.task_id + 1)) == (404, "NOT_FOUND")
    assert said(by_ids(run, run_id=run.pk + 1)) == (404, "NOT_FOUND")
    assert fresh(run).status == "CALLBACK_PENDING"


def test_a_run_that_awaits_no_callback_is_an_invalid_state():
    waiting = make_run(task=make_async())
    assert said(by_ids(waiting)) == (409, "INVALID_STATE")
    (calling,) = claimed_of(make_async(exec_type="SYNC"))
    assert said(by_ids(calling)) == (409, "INVALID_STATE")
    failing, _ = called(retry_policy=AGAIN)
    settled(failing, failed)
    assert said(by_ids(failing, "FAILED")) == (409, "INVALID_STATE")
    assert said(by_ids(failing)) == (200, "SUCCESS")  # it was called, and worked after all


def claimed_of(task):
    TaskRun.objects.all().delete()
    make_run(task=task, moment=NOON - SECOND)
    return claimed()


def test_a_missed_or_skipped_moment_is_over():
    run = make_run(task=make_async(), status="MISSED", reason="misfire")
    assert said(by_ids(run)) == (200, "MISSED")


def test_a_run_that_was_called_asynchronously_just_once_awaits_its_callback():
    run = trigger.trigger(make_async(exec_type="SYNC").pk, now=NOON, force_async=True)
    (run,) = claimed()
    settled(run, outcome, asynchronous=True)
    assert fresh(run).callback_deadline == NOON + MINUTE
    assert said(post(given(run))) == (200, "SUCCESS")


# --- gone ---------------------------------------------------------------------------------------


def prune_meanwhile(monkeypatch, name, run):
    """The run is deleted after it was found, and before it is locked."""
    found = getattr(receive, name)

    def then_gone(*args, **fields):
        TaskRun.objects.filter(pk=run.pk).delete()
        return found(*args, **fields)

    monkeypatch.setattr(api.receive, name, then_gone)


def test_a_run_that_is_deleted_before_it_is_locked_is_a_token_that_nobody_was_given(monkeypatch):
    run, token = pending()
    prune_meanwhile(monkeypatch, "with_token", run)
    answer, unknown = post(token).json(), post("0" * 32).json()
    assert answer | {"request_id": ""} == unknown | {"request_id": ""}
    assert unknown["code"] == "NOT_FOUND"


def test_a_run_that_is_deleted_before_it_is_locked_is_not_found_by_ids(monkeypatch):
    run, _ = pending()
    prune_meanwhile(monkeypatch, "with_ids", run)
    assert said(by_ids(run)) == (404, "NOT_FOUND")
