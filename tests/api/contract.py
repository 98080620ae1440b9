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

# The rows of the tables, the operations of Ksana's dialect and what was added; and who tests it.
ROWS = {
    "GET /": "test_get_the_root_is_a_browsable_index",
    "POST /tasks": "test_post_tasks_creates_a_task_and_says_where",
    "GET /tasks": "test_get_tasks_filters_orders_and_pages",
    "GET /tasks/{id}": "test_get_a_task_answers_it_with_its_etag",
    "PUT /tasks/{id}": "test_put_a_task_resets_what_is_left_out",
    "PATCH /tasks/{id}": (
        "test_patch_a_task_merges_the_policy_and_the_work_and_replaces_headers_and_tags"
    ),
    "DELETE /tasks/{id}": "test_delete_a_task_is_soft",
    "POST /tasks/{id}/enable": "test_enable_and_disable_a_task",
    "PATCH /tasks/{id}/enable": "test_enable_and_disable_a_task",
    "POST /tasks/{id}/disable": "test_enable_and_disable_a_task",
    "PATCH /tasks/{id}/disable": "test_enable_and_disable_a_task",
    "POST /tasks/{id}/trigger": "test_trigger_a_task_makes_one_run_now_also_of_a_disabled_one",
    "GET /tasks/{id}/runs": "test_get_the_runs_of_a_task_newest_first_and_of_no_other",
    "GET /tasks/{id}/next": "test_get_the_next_moments_of_a_task",
    "POST /tasks/preview": "test_post_a_preview_tells_moments_after_from_and_describes_them",
    "GET /tasks/{id}/changes": "test_the_log_says_who_changed_what_and_when",
    "POST /tasks/{id}/restore": "test_an_earlier_version_can_be_restored",
    "GET /tasks/{id}/explain": "test_the_time_asked_about_is_checked",
    "POST /tasks/bulk": "test_a_dry_run_says_what_it_would_do_and_does_nothing",
    "GET /runs": "test_get_runs_lists_all_tasks_newest_first_without_what_is_large",
    "GET /runs/{id}": "test_get_a_run",
    "POST /runs/{id}/cancel": "test_post_cancel_ends_a_run_from_any_state_that_is_not_final",
    "POST /runs/{id}/replay": "test_post_replay_makes_a_new_run_for_the_same_time",
    "POST /runs/bulk": "test_many_runs_are_canceled_or_refused_one_by_one",
    "GET /callbacks": "test_get_callbacks_tells_what_came_in",
    "GET /callbacks/{id}": "test_get_callbacks_tells_what_came_in",
    "GET /runs/{id}/callbacks": "test_get_callbacks_tells_what_came_in",
    "POST /callbacks/{token}": "test_post_callbacks_by_token_ends_the_run",
    "POST /callbacks": "test_post_callbacks_by_ids_needs_a_run_of_that_task",
    "GET /pause": "test_post_pause_holds_all_firing_or_a_tags_until_resume",
    "POST /pause": "test_post_pause_holds_all_firing_or_a_tags_until_resume",
    "POST /resume": "test_post_pause_holds_all_firing_or_a_tags_until_resume",
    "GET /healthz": "test_get_healthz_says_ok",
    "GET /readyz": "test_get_readyz_tells_of_the_database_the_migrations_and_the_scheduler",
    "GET /version": "test_get_version_is_text",
    "GET /metrics": "test_get_metrics_is_text_for_prometheus_at_the_root",
    "GET /api/schema/, /api/docs/": "test_get_the_schema_and_the_docs_with_a_login_or_a_read_key",
    "Scopes": "test_a_scope_opens_what_the_document_says_and_nothing_else",
    "No key needed": "test_without_a_key_nothing_opens_but_what_is_named",
    "GET /jobs": "test_get_jobs_is_an_array_of_tasks_of_every_origin",
    "POST /jobs": "test_post_jobs_answers_the_whole_job",
    "GET /jobs/{id}": "test_get_one_job_or_say_that_there_is_none",
    "PATCH /jobs/{id}": "test_patch_changes_the_parts_that_are_given",
    "DELETE /jobs/{id}": "test_delete_answers_nothing_and_the_job_is_gone",
    "POST /jobs/{id}/run-now": "test_ksana_17_a_call_carries_the_ids_that_were_told",
    "POST /jobs/{id}/pause": "test_a_job_is_paused_and_resumed",
    "POST /jobs/{id}/resume": "test_a_job_is_paused_and_resumed",
    "GET /health": "test_health_answers_without_a_key",
}


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
