"""What the contract tests share: the words of API.md, and how an answer is read."""

import re

LEAST = {"name": "sync_stats", "target_url": "http://svc.internal/sync", "every": "5m"}
DEFAULTS = {
    "name": "sync_stats", "description": "", "tags": [],
    "schedule_kind": "EVERY", "cron_expr": None, "every": "5m", "run_at": None,
    "start_at": None, "end_at": None, "jitter": None, "timezone": "UTC",
    "exec_type": "SYNC", "http_method": "GET", "target_url": "http://svc.internal/sync",
    "headers": {}, "body_template": "",
    "connect_timeout_seconds": 5, "timeout_seconds": 15, "follow_redirects": False,
    "secret_headers": [], "secret_paths": [],
    "retry_policy": {
        "max_retries": 0, "initial_delay": 5, "strategy": "exponential", "max_delay": 60,
        "jitter": False, "retry_on_callback_failure": False,
    },
    "max_concurrency": 1, "concurrency_policy": "QUEUE", "misfire_policy": "FIRE_NOW",
    "misfire_grace_seconds": 60, "catchup_limit": 5, "start_deadline_seconds": None,
    "on_lost": "RETRY", "priority": "NORMAL",
    "callback_method": "POST", "callback_timeout_sec": 300, "work": None,
    "status": "ENABLED", "version": 1, "ended": False, "last_run": None,
}  # fmt: skip
GIVEN_BY_US = {"id", "uuid", "next_run_at", "created_at", "updated_at"}
TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z")
WORK = {"queue": "q", "job_type": "t"}
FIRST = "2030-01-01T00:00:00Z"
LATER = "2031-01-01T00:00:00Z"


def with_(**changes):
    """The least that makes a task, with these changes; None leaves a field out."""
    return {name: value for name, value in (LEAST | changes).items() if value is not None}


def refused(answer, status, code, *fields):
    told = answer.json()
    assert (answer.status_code, told.get("code")) == (status, code), told
    assert told["message"]
    assert told["request_id"] == answer["X-Request-ID"]
    assert set(fields) <= set(told.get("fields", {})), told
    assert all(isinstance(why, list) and why for why in told.get("fields", {}).values())


def said(answer, status=200):
    assert answer.status_code == status, answer.content
    return answer.json()


def created(api, **changes):
    return said(api.post("tasks", with_(**changes)), 201)


def link(url):
    """A link that was answered, as the client of the tests takes it."""
    return url.removeprefix("http://testserver")


def names(answer):
    return [task["name"] for task in said(answer)["results"]]
