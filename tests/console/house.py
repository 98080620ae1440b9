"""A house full of rows: something of every kind that the console shows."""

import itertools
from datetime import timedelta

from django.contrib.auth.models import Group, User

from callbacks.models import AsyncCallback
from cronjob.api.models import ApiKey
from runs.models import TaskRun
from runs.states import ErrorKind, Status, Trigger
from tasks.changes import Change, Verb, note
from tasks.models import Task
from tests.factories import MINUTE, NOON, make_key, make_run, make_task, make_user

YEAR = timedelta(days=365)
WORK = {
    "JOB": {"queue": "mail", "job_type": "send", "payload": {"to": ["a", "b"]}},
    "NODE": {"model": "large", "timeout_seconds": 60},
}
# What WHOLE holds that is not for everybody's eyes.
SECRETS = ["hush1", "hush2", "hush3", "hush4"]
# A task that says something in every field.
WHOLE = {
    "name": "everything <b>&amp;",
    "description": "all of it",
    "tags": ["nightly", "夜"],
    "cron_expr": "0 */5 8-18 * * MON-FRI",
    "start_at": NOON + 10 * YEAR,
    "end_at": NOON + 11 * YEAR,
    "jitter_seconds": 30,
    "timezone": "Europe/Berlin",
    "exec_type": "ASYNC",
    "http_method": "PUT",
    "target_url": "https://svc.internal:8443/run?id={{ run_id }}&x=<y>&api_key=hush1",
    "headers": {"Authorization": "hush2", "X-Password": "hush3", "X-Run": "{{ run_id }}: yes"},
    "body_template": '{"run_id": {{ run_id|tojson }}, "user": {"password": "hush4"}}',
    "connect_timeout_seconds": 2.5,
    "timeout_seconds": 30,
    "follow_redirects": True,
    "secret_headers": ["X-Password"],
    "secret_paths": ["user.password", "items.*.key"],
    "retry_policy": {
        "max_retries": 3,
        "initial_delay": 1.5,
        "strategy": "fixed",
        "max_delay": 30,
        "jitter": True,
        "retry_on_callback_failure": True,
    },
    "max_concurrency": 4,
    "concurrency_policy": "SKIP",
    "misfire_policy": "CATCH_UP_LIMITED",
    "misfire_grace_seconds": 5,
    "catchup_limit": 7,
    "start_deadline_seconds": 90,
    "on_lost": "FAIL",
    "priority": 0,
    "callback_method": "PATCH",
    "callback_timeout_sec": 60,
    "next_run_at": NOON + 10 * YEAR,
}


def make_tasks_of_every_kind():
    for exec_type in ("SYNC", "ASYNC"):
        make_task(cron_expr="0 0 * * * *", exec_type=exec_type)
        make_task(run_at=NOON, exec_type=exec_type)
    for exec_type, work in WORK.items():
        make_task(schedule_kind="EVERY", exec_type=exec_type, work=work, target_url="")
        make_task(schedule_kind="MANUAL", exec_type=exec_type, work=work, status="DISABLED")
    return make_task(**WHOLE)


def make_runs_of_every_kind(task):
    triggers = itertools.cycle(Trigger)
    for status in Status:
        whole = {"missed_from": NOON, "missed_to": NOON + MINUTE, "missed_count": 3}
        running = {"owner": "host:1:boot", "slot": 1, "start_time": NOON, "progress": 0.5}
        own = {Status.MISSED: whole, Status.RUNNING: running}.get(status, {})
        make_run(task=task, status=status, trigger=next(triggers), **own)
    make_run(
        task=task,
        status=Status.FAILED,
        error_kind=ErrorKind.HTTP,
        error_message="<script>alert(1)</script>",
        request_headers={"X": "<script>alert(2)</script>"},
        response_body="<script>alert(4)</script>",
        response_code=500,
        attempts=[{"attempt": 1, "response_code": 503, "error_kind": "http"}],
        timings={"total_ms": 85},
    )


def fill():
    """Make them all; the rows of each model that the console shows, newest state."""
    make_runs_of_every_kind(make_tasks_of_every_kind())
    for verb, task in itertools.product(("CREATE", "EDIT"), Task.objects.all()):
        changed = ["target_url", "headers"] if verb == "EDIT" else []
        note(task, Verb(verb), by="user <b>anna</b>", now=NOON, before=task, changed=changed)
    run = TaskRun.objects.first()
    for status in ("RECEIVED", "IGNORED"):
        AsyncCallback.objects.create(
            task_run=run, received_at=NOON, status=status, body="<script>alert(4)</script>"
        )
    make_key("read", "worker", queues=["mail"], created_by=make_user("maker"))
    make_key("write", expires_at=NOON)
    ApiKey.objects.filter(scopes=["write"]).update(revoked_at=NOON, last_used_at=NOON)
    return rows()


def rows():
    shown = (Task, Change, TaskRun, AsyncCallback, ApiKey, User, Group)
    return {model: list(model.objects.order_by("pk")) for model in shown}
