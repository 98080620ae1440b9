"""What must not be read, wherever a target repeats it: tokens, credentials, the task's secrets."""

import pytest

from callbacks.models import AsyncCallback
from callbacks.receive import UNREADABLE_MOST
from tests import marks
from tests.callbacks.reports import given, make_async, pending, post, said
from tests.factories import make_api
from tests.runs.engine import fresh

pytestmark = marks.both


def test_credentials_in_headers_are_masked():
    run, token = pending(make_async(secret_headers=["X-Mine"]))
    post(
        token, authorization="Bearer abc", cookie="a=b", X_Api_Key="k", X_Mine="mine",
        X_Cronjob_Callback_Token=token, X_Other=f"see {token}",
    )  # fmt: skip
    (row,) = AsyncCallback.objects.filter(task_run=run)
    shown = {name: row.headers[name] for name in row.headers if name.startswith(("X-", "A", "Co"))}
    assert shown.pop("X-Other") == "see ********"
    assert set(shown.values()) - {"application/json", row.headers["Content-Length"]} == {"********"}


def test_the_token_is_masked_wherever_the_target_repeats_it():
    run, token = pending()
    post(token, {"status": "SUCCESS", "data": {"url": f"https://x/api/v1/callbacks/{token}"}})
    assert token not in AsyncCallback.objects.get(task_run=run).body


def test_what_the_task_calls_secret_is_masked():
    run, token = pending(make_async(secret_paths=["data.password", "data.rows.*.pin"]))
    post(token, {"status": "SUCCESS", "data": {"password": "hunter2", "rows": [{"pin": 4711}]}})
    body = AsyncCallback.objects.get(task_run=run).body
    assert "hunter2" not in body
    assert "4711" not in body


def test_what_could_not_be_understood_shows_no_secret_either():
    run, token = pending(make_async(secret_paths=["data.password"]))
    post(token, b'{"status": "SUCCESS", "data": {"password": "hunter2"')
    assert "hunter2" not in AsyncCallback.objects.get(task_run=run).body


def test_the_token_is_masked_in_what_the_target_says_of_its_failure():
    run, token = pending(retry_policy={"max_retries": 1, "retry_on_callback_failure": True})
    trouble = f"Max retries exceeded with url: /api/v1/callbacks/{token}"
    post(token, {"status": "RUNNING", "message": trouble})
    assert token not in fresh(run).progress_message
    post(token, {"status": "FAILED", "error_message": trouble})
    assert fresh(run).error_message.startswith("Max retries exceeded")
    assert token not in fresh(run).error_message + str(fresh(run).attempts)


def test_a_message_that_the_task_calls_secret_is_masked():
    run, token = pending(make_async(secret_paths=["error_message"]))
    post(token, {"status": "FAILED", "error_message": "the pin was 4711"})
    assert fresh(run).error_message == "********"


def test_what_the_task_calls_secret_is_masked_within_a_message_that_is_no_text():
    run, token = pending(make_async(secret_paths=["error_message.pin"]))
    post(token, {"status": "FAILED", "error_message": {"pin": 4711, "why": "wrong"}})
    assert fresh(run).error_message == '{"pin": "********", "why": "wrong"}'


def test_the_token_of_another_attempt_is_masked_too():
    run, token = pending()
    other = given(run)
    body = {"status": "SUCCESS", "data": f"first told {other}", "trace": run.trace_id}
    assert said(make_api("operate").post("callbacks", ids_of(run) | body)) == (200, "SUCCESS")
    kept_body = AsyncCallback.objects.get(task_run=run).body
    assert other not in kept_body
    assert run.trace_id in kept_body  # looks like one, and is none
    assert said(post(token)) == (200, "SUCCESS")


def ids_of(run):
    return {"task_id": run.task_id, "run_id": run.pk}


@pytest.mark.parametrize("wrong", ["{token}", "see {token}"])
def test_the_token_is_masked_in_the_reason_why_a_report_does_not_count(wrong):
    run, token = pending()
    wrong = wrong.format(token=token)
    for body in ({"status": wrong}, {"status": "RUNNING", "progress": wrong}, [wrong], f"{wrong}1"):
        post(token, body)
    rows = list(AsyncCallback.objects.filter(task_run=run))
    assert len(rows) == 4
    assert all(row.reason and token not in row.reason + row.body for row in rows)


def test_the_reason_shows_nothing_that_the_task_calls_secret():
    run, token = pending(make_async(secret_paths=["status"]))
    post(token, {"status": "hunter2"})
    (row,) = AsyncCallback.objects.filter(task_run=run)
    assert row.reason == "status: Must be SUCCESS, FAILED or RUNNING."
    assert "hunter2" not in row.body


def test_no_beginning_of_a_token_is_left_where_a_message_is_cut():
    run, token = pending(retry_policy={"max_retries": 1, "retry_on_callback_failure": True})
    post(token, {"status": "RUNNING", "message": "x" * 240 + f" {token}"})
    assert token[:8] not in fresh(run).progress_message
    post(token, {"status": "FAILED", "error_message": "x" * 991 + f" {token} and more"})
    assert fresh(run).error_message == "x" * 991 + " ******** and more"


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16"])
def test_no_beginning_of_a_token_is_left_where_what_cannot_be_understood_is_cut(encoding):
    run, token = pending()
    start = '{"status": "SUCCESS", "data": "'
    body = start + "x" * (UNREADABLE_MOST - 32 - len(start)) + f" {token} " + "x" * 100
    assert post(token, body.encode(encoding)).status_code == 400
    shown = AsyncCallback.objects.get(task_run=run).body
    assert len(shown) == UNREADABLE_MOST
    assert token[:8] not in shown
    assert shown[-32:].startswith(" ********")
