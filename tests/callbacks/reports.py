"""An asynchronous run under way, the token of its attempt, and those who report on it."""

from callbacks import target
from callbacks.models import AsyncCallback
from tests.factories import NOON, SECOND, Api, make_run, make_task
from tests.runs.engine import claimed, fresh, outcome, settled

ORIGIN = "https://cron.example.com"


def make_async(**fields):
    fields = {"exec_type": "ASYNC", "callback_timeout_sec": 60} | fields
    return make_task(**fields)


def called(task=None, *, now=NOON, **fields):
    """A run whose call is under way, and the token it was given."""
    if task is None:
        task = make_async(**fields)
    make_run(task=task, moment=now - SECOND, max_attempts=task.retry_policy["max_retries"] + 1)
    (run,) = claimed(now)
    return run, given(run)


def given(run):
    """The token that this attempt is given."""
    ((_, token),) = target.issue([run]).values()
    return token


def pending(task=None, *, now=NOON, **fields):
    """A run that its target has accepted."""
    run, token = called(task, now=now, **fields)
    assert settled(run, outcome, now=now, asynchronous=True)
    assert fresh(run).status == "CALLBACK_PENDING"
    return fresh(run), token


def post(token, body=None, *, api=None, method="POST", **headers):
    body = {"status": "SUCCESS"} if body is None else body
    path = f"callbacks/{token}" if token else "callbacks"
    return (api or Api()).call(method, path, body, **headers)


def said(answer):
    """The status code, and what was answered."""
    body = answer.json()
    return answer.status_code, body.get("final_status", body.get("code"))


def kept(run):
    rows = AsyncCallback.objects.filter(task_run=run.pk).order_by("id")
    return [(row.attempt, row.status, row.reason) for row in rows]
