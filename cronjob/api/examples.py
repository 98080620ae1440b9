"""An example of each operation, as the description of the API shows it; each is tried by a test."""

from dataclasses import dataclass, field
from typing import Any

NOON, LATER = "2026-01-01T12:00:00Z", "2026-01-01T12:05:00Z"


@dataclass(frozen=True, slots=True)
class Example:
    summary: str
    answer: Any = None
    body: Any = None
    query: str = ""  # without which it would be refused


TASK: dict[str, Any] = {
    "id": 1, "uuid": "0190d3f0-0000-4000-8000-000000000001", "name": "sync_stats",
    "description": "", "tags": ["nightly"],
    "schedule_kind": "CRON", "cron_expr": "0 */5 * * * *", "every": None, "run_at": None,
    "start_at": None, "end_at": None, "jitter": None, "timezone": "UTC",
    "exec_type": "SYNC", "http_method": "POST", "target_url": "http://stats.internal/sync",
    "headers": {"Content-Type": "application/json"}, "body_template": '{"run_id": {{ run_id }}}',
    "connect_timeout_seconds": 5, "timeout_seconds": 15, "follow_redirects": False,
    "secret_headers": [], "secret_paths": [],
    "retry_policy": {
        "max_retries": 3, "initial_delay": 5, "strategy": "exponential", "max_delay": 60,
        "jitter": False, "retry_on_callback_failure": False,
    },
    "max_concurrency": 1, "concurrency_policy": "QUEUE", "misfire_policy": "FIRE_NOW",
    "misfire_grace_seconds": 60, "catchup_limit": 5, "start_deadline_seconds": None,
    "on_lost": "RETRY", "priority": "NORMAL", "callback_method": "POST",
    "callback_timeout_sec": 300, "work": None, "status": "ENABLED", "version": 1,
    "disabled_reason": "", "ended": False, "next_run_at": LATER,
    "last_run": {"id": 42, "status": "SUCCESS", "scheduled_time": NOON, "end_time": NOON},
    "created_at": NOON, "updated_at": NOON,
}  # fmt: skip
NEW_TASK = {
    "name": "sync_stats", "cron_expr": "0 */5 * * * *", "http_method": "POST",
    "target_url": "http://stats.internal/sync", "retry_policy": {"max_retries": 3},
}  # fmt: skip
ROW: dict[str, Any] = {
    "id": 42, "uuid": "0190d3f0-0000-4000-8000-000000000042", "task_id": 1,
    "task_name": "sync_stats", "trigger": "SCHEDULE", "status": "SUCCESS", "reason": "",
    "attempt": 2, "max_attempts": 4, "scheduled_time": NOON, "start_time": NOON, "end_time": NOON,
    "lateness_ms": 12, "duration_ms": 85, "request_method": "POST",
    "request_url": "http://stats.internal/sync", "response_code": 200,
    "response_truncated": False, "error_kind": "", "error_message": "", "next_retry_time": None,
    "callback_deadline": None, "progress": None, "progress_message": "",
    "trace_id": "0af7651916cd43dd8448eb211c80319c", "owner": "host:4711:1b2c", "missed": None,
    "created_at": NOON, "updated_at": NOON,
}  # fmt: skip
RUN = ROW | {
    "request_headers": {"Idempotency-Key": "0190d3f0-0000-4000-8000-000000000001:2026-01-01T12:00"},
    "request_body": '{"run_id": 42}', "response_headers": {"content-type": "application/json"},
    "response_body": '{"ok": true}',
    "timings": {"connect_ms": 1, "first_byte_ms": 80, "total_ms": 85},
    "attempts": [
        {
            "attempt": 1, "start_time": NOON, "end_time": NOON, "response_code": 503,
            "error_kind": "http", "error_message": "HTTP 503",
        }
    ],
}  # fmt: skip
CALLBACK: dict[str, Any] = {
    "id": 7, "run_id": 42, "attempt": 1, "received_at": NOON, "status": "RECEIVED", "reason": "",
    "headers": {"Content-Type": "application/json"}, "body": '{"status": "SUCCESS"}',
}  # fmt: skip
MOMENTS = {"moments": [{"at": LATER, "local": "2026-01-01T12:05:00+00:00", "fires_at": LATER,
                        "note": None}]}  # fmt: skip
CHANGE: dict[str, Any] = {
    "id": 3, "at": NOON, "who": "key ci", "verb": "EDIT", "reason": "", "version": 2,
    "changes": {"cron_expr": {"old": "0 0 * * * *", "new": "0 */5 * * * *"}},
}  # fmt: skip
EXPLAINED: dict[str, Any] = {
    "at": NOON, "local": "2026-01-01T12:00:00+00:00", "verdict": "NO_MOMENT",
    "summary": "The schedule has no such moment; none before, the next is 2026-01-01T12:05:00Z.",
    "run": None, "blocked_by": [], "by": "", "since": None, "until": None, "previous": None,
    "next": LATER, "notes": [],
}  # fmt: skip
PAUSED: dict[str, Any] = {"tag": "nightly", "reason": "deploy", "until": None, "created_at": NOON}
DONE: dict[str, Any] = {
    "action": "disable", "dry_run": True, "matched": 1, "total": 1, "total_capped": False,
    "changed": 1,
    "results": [{"id": 1, "outcome": "changed", "detail": "", "run_id": None}],
    "next_after_id": None,
}  # fmt: skip
JOB: dict[str, Any] = {
    "id": "0190d3f0-0000-4000-8000-000000000001", "name": "ping service", "enabled": True,
    "type": "http",
    "http": {"method": "GET", "url": "http://svc.internal/ping", "headers": {}, "body": ""},
    "schedule": {"kind": "every", "every": "5m", "start_at": "", "jitter": "5s"},
    "timeout": "10s", "max_retries": 3, "retry_backoff": "5s", "last_run_at": "",
    "next_run_at": LATER, "last_status": "", "last_error": "",
}  # fmt: skip
NEW_JOB = {name: JOB[name] for name in ("name", "http", "schedule", "timeout", "max_retries")}
SUCCESS = {"run_id": 42, "final_status": "SUCCESS"}


def page(row: Any) -> dict[str, Any]:
    return {"count": 1, "next": None, "previous": None, "results": [row]}


EXAMPLES = {
    "tasks_list": Example("List tasks", page(TASK)),
    "tasks_create": Example("Create a task", TASK, NEW_TASK),
    "tasks_retrieve": Example("Get a task", TASK),
    "tasks_update": Example("Replace a task", TASK, NEW_TASK),
    "tasks_partial_update": Example("Change parts of a task", TASK, {"cron_expr": "0 0 * * * *"}),
    "tasks_destroy": Example("Delete a task", {"deleted": True}),
    "tasks_enable_create": Example("Enable a task", {"status": "ENABLED"}, {}),
    "tasks_enable_partial_update": Example("Enable a task", {"status": "ENABLED"}, {}),
    "tasks_disable_create": Example(
        "Disable a task", {"status": "DISABLED"}, {"reason": "too loud"}
    ),
    "tasks_disable_partial_update": Example(
        "Disable a task", {"status": "DISABLED"}, {"reason": "too loud"}
    ),
    "tasks_trigger_create": Example("Run a task now", {"run_id": 42}, {"override_body": "{}"}),
    "tasks_runs_list": Example("List the runs of a task", page(ROW)),
    "tasks_next_retrieve": Example("Tell the coming moments of a task", MOMENTS),
    "tasks_preview_create": Example(
        "Tell the moments of a schedule",
        MOMENTS | {"description": "Every 5 minutes (UTC)"},
        {"cron_expr": "*/5 * * * *", "count": 3},
    ),
    "tasks_changes_list": Example("List the changes of a task", page(CHANGE)),
    "tasks_restore_create": Example("Restore an earlier version", TASK, {"version": 1}),
    "tasks_explain_retrieve": Example(
        "Explain why a task ran or did not", EXPLAINED, query="at=2026-01-01T12:00:00Z"
    ),
    "tasks_bulk": Example(
        "Do one verb to many tasks", DONE,
        {"filter": {"tag": "nightly"}, "action": "disable", "dry_run": True},
    ),
    "runs_list": Example("List runs", page(ROW)),
    "runs_retrieve": Example("Get a run", RUN),
    "runs_cancel_create": Example(
        "Cancel a run", {"run_id": 42, "status": "CANCELED"}, {"reason": "not today"}
    ),
    "runs_replay_create": Example("Replay a run", {"run_id": 43}, {}),
    "runs_bulk": Example(
        "Cancel or replay many runs", DONE | {"action": "replay"},
        {"filter": {"status": ["FAILED", "TIMEOUT"]}, "action": "replay", "dry_run": True},
    ),
    "runs_callbacks_list": Example("List the callbacks of a run", page(CALLBACK)),
    "callbacks_list": Example("List callbacks", page(CALLBACK)),
    "callbacks_retrieve": Example("Get a callback", CALLBACK),
    "report": Example("Report the end of an attempt", SUCCESS, {"status": "SUCCESS"}),
    "report_by_ids": Example(
        "Report the end of a run by ids", SUCCESS, {"task_id": 1, "run_id": 42, "status": "SUCCESS"}
    ),
    "pause_retrieve": Example("List the pauses", {"pauses": [PAUSED]}),
    "pause_create": Example("Pause all firing, or a tag's", PAUSED, {"tag": "nightly"}),
    "resume_create": Example("End a pause", {"resumed": True}, {"tag": "nightly"}),
    "jobs_list": Example("List jobs", [JOB]),
    "jobs_create": Example("Create a job", JOB, NEW_JOB),
    "jobs_retrieve": Example("Get a job", JOB),
    "jobs_partial_update": Example("Change parts of a job", JOB, {"timeout": "30s"}),
    "jobs_destroy": Example("Delete a job"),
    "jobs_run_now_create": Example(
        "Run a job now", {"run_id": "0190d3f0-0000-4000-8000-000000000042"}
    ),
    "jobs_pause_create": Example("Disable a job", JOB | {"enabled": False}),
    "jobs_resume_create": Example("Enable a job", JOB),
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Probe:
    """What machines ask without a key: a plain view, described here."""

    summary: str
    answer: Any  # a text is plain text
    statuses: dict[str, str] = field(default_factory=dict)  # other than 200
    parameter: dict[str, Any] | None = None


READY = {"database": "ok", "migrations": "ok", "scheduler": "ok"}
PROBES = {
    "/api/v1/healthz": Probe("Whether the process answers", "ok"),
    "/api/v1/readyz": Probe(
        "Whether the database is there and migrated",
        READY,
        {"400": "Only `scheduler` can be required.", "503": "Not ready: the answer says what."},
        {
            "name": "require",
            "in": "query",
            "description": "With `scheduler`, 503 also while no scheduler is alive.",
            "schema": {"type": "string", "enum": ["scheduler"]},
        },
    ),
    "/api/v1/version": Probe("Which version answers", "v1.2.3"),
    "/health": Probe("The same in Ksana's words", {"status": "ok"}),
    "/metrics": Probe(
        "Figures in Prometheus' format",
        'cronjob_task_total{status="ENABLED"} 1.0',
        {"401": "Not the CRONJOB_METRICS_TOKEN.", "403": "Without one, only from this machine."},
    ),
}
