"""Plain functions that make what a test needs; every argument may be overridden."""

import itertools
import json
from datetime import UTC, datetime, timedelta
from typing import Any

from django.contrib.auth.models import Group, User
from django.db import connection
from django.test import Client

from cronjob.api.models import ApiKey
from runs.models import TaskRun
from runs.states import FINAL, UNPLANNED, WAITING, Status, Trigger
from tasks.models import Task

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
SECOND = timedelta(seconds=1)
MINUTE = 60 * SECOND
numbers = itertools.count(1)


def make_task(**fields: Any) -> Task:
    kind = fields.get("schedule_kind") or (
        "CRON" if "cron_expr" in fields else "ONCE" if "run_at" in fields else "EVERY"
    )
    own: dict[str, Any] = {"every_seconds": 60, "anchor": NOON} if kind == "EVERY" else {}
    values = {
        "name": f"task {next(numbers)}",
        "schedule_kind": kind,
        "target_url": "http://127.0.0.1:9/never",
        "created_at": NOON,
        "updated_at": NOON,
        **own,
        **fields,
    }
    if values.get("next_run_at"):
        values.setdefault("next_moment", values["next_run_at"])
    return Task.objects.create(**values)


def make_run(**fields: Any) -> TaskRun:
    status = fields.get("status", Status.SCHEDULED)
    trigger = fields.get("trigger", Trigger.SCHEDULE)
    moment = fields.get("moment", NOON + next(numbers) * SECOND)
    values: dict[str, Any] = {
        "scheduled_time": moment,
        "due_at": moment,
        "ready_at": moment if status in WAITING else None,
        "next_retry_time": moment if status == Status.RETRYING else None,
        "moment": None if trigger in UNPLANNED else moment,
        "end_time": NOON if status in FINAL else None,
        "deadline_at": NOON + MINUTE if status == Status.RUNNING else None,
        "callback_deadline": NOON + MINUTE if status == Status.CALLBACK_PENDING else None,
        "created_at": NOON,
        "updated_at": NOON,
        **fields,
    }
    if "task" not in values:
        values["task"] = make_task()
    return TaskRun.objects.create(**values)


def make_tasks(count: int, *, prefix: str = "copy ", **fields: Any) -> None:
    """Very many tasks, copied from one inside the database."""
    copy(make_task(**fields), count, name=f"'{prefix}' || n")


def copy(row: Any, count: int, **differing: str) -> None:
    """Copies of a row; an expression of SQL over `n` for each column in which they differ."""
    sqlite = connection.vendor == "sqlite"
    differing["uuid"] = "lower(hex(randomblob(16)))" if sqlite else "gen_random_uuid()"
    columns = {
        field.column: differing.get(field.column, f'"{field.column}"')
        for field in row._meta.concrete_fields
        if not (field.primary_key or field.generated)
    }
    names = ", ".join(f'"{name}"' for name in columns)
    series = "WITH s AS (SELECT generate_series(1, %s) AS n)"
    if sqlite:
        series = "WITH RECURSIVE s(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM s WHERE n < %s)"
    table = row._meta.db_table
    sql = (
        f'{series} INSERT INTO "{table}" ({names}) '
        f'SELECT {", ".join(columns.values())} FROM s, "{table}" WHERE id = %s'
    )
    with connection.cursor() as cursor:
        cursor.execute(sql, [count, row.pk])


def make_user(name: str, *, group: str = "", **fields: Any) -> User:
    user = User.objects.create_user(name, password="a password for tests", **fields)
    if group:
        user.groups.add(Group.objects.get(name=group))
    return user


def make_key(*scopes: str, **fields: Any) -> str:
    values = {"name": f"key {next(numbers)}", **fields}
    _, text = ApiKey.objects.issue(now=NOON, scopes=list(scopes), **values)
    return text


class Api:
    """Talks JSON to /api/v1 the way a client does."""

    def __init__(self, key: str = "") -> None:
        headers = {"authorization": f"Bearer {key}"} if key else {}
        self.client = Client(headers=headers, raise_request_exception=False)

    def call(self, method: str, path: str, body: Any = None, **headers: str) -> Any:
        url = path if path.startswith("/") else f"/api/v1/{path}"
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        if body is None:
            return self.client.generic(method, url, headers=named)
        text = body if isinstance(body, str | bytes) else json.dumps(body)
        return self.client.generic(method, url, text, "application/json", headers=named)

    def get(self, path: str, **headers: str) -> Any:
        return self.call("GET", path, **headers)

    def post(self, path: str, body: Any = None, **headers: str) -> Any:
        return self.call("POST", path, body, **headers)

    def put(self, path: str, body: Any = None, **headers: str) -> Any:
        return self.call("PUT", path, body, **headers)

    def patch(self, path: str, body: Any = None, **headers: str) -> Any:
        return self.call("PATCH", path, body, **headers)

    def delete(self, path: str, **headers: str) -> Any:
        return self.call("DELETE", path, **headers)


def make_api(*scopes: str, **fields: Any) -> Api:
    return Api(make_key(*scopes, **fields))
