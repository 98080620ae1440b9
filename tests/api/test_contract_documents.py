"""The endpoints of the documents in `seeds/`, section by section, conflicts settled by the design.

First cronjob.md §9, then its document of phase 1, then what of ksana.md stands nowhere else.
"""

import json
import re
import uuid

import pytest

from cronjob.lib import clock
from runs import calls
from tests import marks
from tests.api.contract import TIME, created, names, refused, said
from tests.callbacks.reports import pending, post
from tests.factories import MINUTE, NOON, Api, make_api, make_run, make_task
from tests.runs.engine import claimed

pytestmark = marks.both

STATS = {
    "name": "sync_stats", "description": "统计同步", "cron_expr": "0 */5 * * *",
    "exec_type": "SYNC", "http_method": "POST", "target_url": "http://svc.internal/api/sync",
    "headers": {"Content-Type": "application/json"},
    "body_template": "{\"run_id\": \"{{run_id}}\"}", "timeout_seconds": 10,
    "retry_policy": {
        "max_retries": 3, "initial_delay": 5, "strategy": "exponential", "max_delay": 60,
    },
    "max_concurrency": 1, "concurrency_policy": "QUEUE", "misfire_policy": "FIRE_NOW",
    "catchup_limit": 5,
}  # fmt: skip
DEMO = {
    "name": "demo_task", "description": "示例任务", "cron_expr": "*/30 * * * * *",
    "exec_type": "SYNC", "http_method": "GET", "target_url": "https://httpbin.org/get",
    "timeout_seconds": 5,
}  # fmt: skip
SPAN = "from=2026-01-01T00:00:00Z&to=2026-01-02T00:00:00Z"


@pytest.fixture
def operator(db):
    return make_api("operate")


# --- cronjob.md §9: the API ---------------------------------------------------------------------


def test_9_1_1_create_a_task(api):
    task = said(api.post("tasks", STATS), 201)
    assert isinstance(task["id"], int)
    told = STATS | {"cron_expr": "0 0 */5 * * *", "retry_policy": task["retry_policy"]}
    assert task.items() >= told.items()
    assert task["retry_policy"].items() >= STATS["retry_policy"].items()


def test_9_1_2_list_tasks(reader):
    for name, status in (("xxx 1", "ENABLED"), ("xxx 2", "DISABLED"), ("y", "ENABLED")):
        make_task(name=name, status=status)
    assert names(reader.get("tasks?status=ENABLED&name=xxx&page=1&page_size=20")) == ["xxx 1"]


def test_9_1_3_read_a_task(reader):
    task = make_task(name="a")
    assert said(reader.get(f"tasks/{task.pk}"))["name"] == "a"


@pytest.mark.parametrize("method", ["PUT", "PATCH"])
def test_9_1_4_update_a_task_wholly_or_in_part(api, method):
    path = f"tasks/{said(api.post('tasks', STATS), 201)['id']}"
    told = said(api.call(method, path, STATS | {"timeout_seconds": 3}))
    assert (told["timeout_seconds"], told["description"]) == (3, "统计同步")
    if method == "PATCH":
        assert said(api.patch(path, {"timeout_seconds": 4}))["description"] == "统计同步"


def test_9_1_5_enable_and_disable_a_task(api):
    path = f"tasks/{make_task().pk}"
    assert said(api.patch(f"{path}/disable")) == {"status": "DISABLED"}
    assert said(api.patch(f"{path}/enable")) == {"status": "ENABLED"}


def test_9_1_6_delete_a_task(api):
    path = f"tasks/{make_task().pk}"
    assert said(api.delete(path)) == {"deleted": True}
    refused(api.get(path), 404, "NOT_FOUND")


@pytest.mark.parametrize("policy", ["QUEUE", "SKIP", "PARALLEL"])
def test_9_1_7_trigger_a_task_by_hand_at_the_limit(operator, policy):
    task = make_task(concurrency_policy=policy)
    make_run(task=task, status="RUNNING", slot=1)
    answer = operator.post(
        f"tasks/{task.pk}/trigger", {"override_body": "...", "force_async": False}
    )
    if policy == "SKIP":
        refused(answer, 409, "CONCURRENCY_LIMIT")
        return
    run = said(answer, 202)["run_id"]
    assert said(operator.get(f"runs/{run}"))["status"] == "SCHEDULED"
    taken = [run.pk for run in claimed(clock.now() + MINUTE)]
    assert taken == ([run] if policy == "PARALLEL" else [])  # QUEUE waits


def test_9_2_1_list_the_runs_of_a_task(reader):
    task = make_task()
    run = make_run(task=task, status="SUCCESS", moment=NOON)
    make_run(task=task, status="FAILED", moment=NOON + MINUTE)
    make_run(status="SUCCESS")
    page = said(reader.get(f"tasks/{task.pk}/runs?page=1&page_size=20&status=SUCCESS&{SPAN}"))
    assert (page["count"], [row["id"] for row in page["results"]]) == (1, [run.pk])


def test_9_2_2_read_a_run(reader):
    run = make_run(status="SUCCESS")
    assert said(reader.get(f"runs/{run.pk}"))["task_id"] == run.task_id


@pytest.mark.parametrize("status", ["SCHEDULED", "RUNNING", "CALLBACK_PENDING"])
def test_9_2_3_cancel_a_run(operator, status):
    run = make_run(status=status)
    assert said(operator.post(f"runs/{run.pk}/cancel"))["status"] == "CANCELED"
    assert said(operator.get(f"runs/{run.pk}"))["status"] == "CANCELED"


@pytest.mark.parametrize("status", ["SUCCESS", "FAILED"])
def test_9_3_1_report_by_token(reader, status):
    run, token = pending()
    assert re.fullmatch("[0-9a-f]{32}", token)
    body = {"status": status, "data": {"rows": 1}, "error_message": ""}
    assert said(post(token, body)) == {"run_id": run.pk, "final_status": status}
    kept = {"SUCCESS": "CALLBACK_SUCCESS"}.get(status, status)
    assert said(reader.get(f"runs/{run.pk}"))["status"] == kept


def test_9_3_2_report_by_ids(operator):
    run, _ = pending()
    body = {
        "task_id": run.task_id, "run_id": run.pk, "status": "SUCCESS", "data": {},
        "error_message": "",
    }  # fmt: skip
    refused(Api().post("callbacks", body), 401, "UNAUTHENTICATED")
    wrong = operator.post("callbacks", body | {"task_id": make_task().pk})
    assert wrong.status_code in (400, 404)
    assert said(operator.post("callbacks", body)) == {"run_id": run.pk, "final_status": "SUCCESS"}


def test_9_3_a_report_that_is_repeated_is_answered_by_the_final_state_and_kept_as_ignored(reader):
    run, token = pending()
    first = said(post(token, {"status": "FAILED"}))
    assert said(post(token, {"status": "SUCCESS"})) == first
    rows = said(reader.get(f"runs/{run.pk}/callbacks"))["results"]
    assert sorted(row["status"] for row in rows) == ["IGNORED", "RECEIVED"]


def test_9_4_the_system_says_ok_its_figures_and_its_version(db):
    assert Api().get("/api/v1/healthz").text.strip() == "ok"
    assert Api().get("/metrics").status_code == 200
    assert Api().get("/api/v1/version").text.startswith("v")


def test_9_5_an_error_is_a_code_a_message_and_the_id_of_the_request(api):
    answer = api.post("tasks", STATS | {"cron_expr": "x"}, X_Request_ID="trace-id")
    refused(answer, 400, "INVALID_ARGUMENT", "cron_expr")
    assert set(answer.json()) == {"code", "message", "request_id", "fields"}
    assert "cron_expr" in answer.json()["message"]
    assert answer.json()["request_id"] == "trace-id"
    assert set(api.get("tasks/4711").json()) == {"code", "message", "request_id"}


# --- the document of phase 1 --------------------------------------------------------------------


def test_phase_1_the_fields_of_a_task_and_of_a_run_in_snake_case(reader):
    run = make_run()
    assert set(said(reader.get(f"tasks/{run.task_id}"))) >= {
        "id", "name", "description", "cron_expr", "timezone", "exec_type", "http_method",
        "target_url", "headers", "body_template", "timeout_seconds", "retry_policy",
        "max_concurrency", "concurrency_policy", "misfire_policy", "catchup_limit",
        "callback_method", "callback_timeout_sec", "status", "version", "created_at", "updated_at",
    }  # fmt: skip
    told = said(reader.get(f"runs/{run.pk}"))
    assert set(told) >= {
        "id", "task_id", "scheduled_time", "start_time", "end_time", "status", "attempt",
        "request_headers", "request_body", "response_code", "response_body", "error_message",
        "next_retry_time", "callback_deadline", "trace_id", "created_at", "updated_at",
    }  # fmt: skip
    assert "callback_token" not in told


def test_phase_1_1_create_a_task(api):
    task = said(api.post("tasks", DEMO), 201)
    assert task.items() >= DEMO.items()
    defaults = {"max_concurrency": 1, "concurrency_policy": "QUEUE", "status": "ENABLED"}
    assert task.items() >= defaults.items()
    five = said(api.post("tasks", DEMO | {"name": "t1", "cron_expr": "*/5 * * * *"}), 201)
    assert five["cron_expr"] == "0 */5 * * * *"
    refused(api.post("tasks", {"name": "x"}), 400, "INVALID_ARGUMENT")


def test_phase_1_2_list_tasks(api):
    task = created(api)
    api.patch(f"tasks/{task['id']}/disable")
    assert names(api.get("tasks")) == ["sync_stats"]  # of every status, in pages
    assert names(api.get("tasks?status=ENABLED")) == []


def test_phase_1_3_read_a_task(api):
    task = created(api)
    assert said(api.get(f"tasks/{task['id']}")) == task
    refused(api.get("tasks/4711"), 404, "NOT_FOUND")


def test_phase_1_4_update_a_task(api):
    path = f"tasks/{said(api.post('tasks', DEMO), 201)['id']}"
    change = {"description": "更新描述", "cron_expr": "*/10 * * * * *"}
    assert said(api.patch(path, change)).items() >= (DEMO | change).items()
    refused(api.patch("tasks/4711", change), 404, "NOT_FOUND")


def test_phase_1_5_enable_and_disable_a_task(api):
    path = f"tasks/{make_task().pk}"
    for verb, status in (("disable", "DISABLED"), ("disable", "DISABLED"), ("enable", "ENABLED")):
        assert said(api.patch(f"{path}/{verb}")) == {"status": status}
        assert said(api.get(path))["status"] == status


def test_phase_1_6_delete_a_task(api):
    run = make_run(status="SUCCESS")
    assert said(api.delete(f"tasks/{run.task_id}")) == {"deleted": True}
    assert names(api.get("tasks")) == []
    assert said(api.get(f"runs/{run.pk}"))["status"] == "SUCCESS"  # it is kept


def test_phase_1_7_trigger_a_task(operator):
    task = make_task(concurrency_policy="SKIP")
    run = said(operator.post(f"tasks/{task.pk}/trigger"), 202)
    assert list(run) == ["run_id"]
    refused(operator.post(f"tasks/{task.pk}/trigger"), 409, "CONCURRENCY_LIMIT")


def test_phase_1_8_list_the_runs_of_a_task(reader):
    task = make_task()
    runs = [make_run(task=task, status=status).pk for status in ("FAILED", "SKIPPED", "SUCCESS")]
    page = said(reader.get(f"tasks/{task.pk}/runs"))
    assert [row["id"] for row in page["results"]] == runs[::-1]


def test_phase_1_9_read_a_run(reader):
    assert said(reader.get(f"runs/{make_run().pk}"))["status"] == "SCHEDULED"
    refused(reader.get("runs/4711"), 404, "NOT_FOUND")


def test_phase_1_10_cancel_a_run(operator):
    run = make_run()
    path = f"runs/{run.pk}/cancel"
    assert said(operator.post(path)) == {"run_id": run.pk, "status": "CANCELED"}
    again = operator.post(path)
    refused(again, 409, "INVALID_STATE")
    assert "CANCELED" in again.text


def test_phase_1_11_is_it_alive(db):
    assert Api().get("healthz").text.strip() == "ok"


def test_phase_1_12_which_version(db):
    assert re.fullmatch(r"v\d+\.\d+\.\d+\S*", Api().get("version").text.strip())


def test_phase_1_13_the_codes_of_errors(api):
    task = make_task(concurrency_policy="SKIP", max_concurrency=0)
    refused(api.post("tasks", "{"), 400, "INVALID_JSON")
    refused(api.post("tasks", {}), 400, "INVALID_ARGUMENT")
    refused(api.get("tasks/abc"), 400, "INVALID_ID")
    refused(api.get("runs/4711"), 404, "NOT_FOUND")
    refused(api.post(f"tasks/{task.pk}/trigger"), 409, "CONCURRENCY_LIMIT")


def test_phase_1_14_the_script_from_beginning_to_end(api):
    t1 = DEMO | {"name": "t1", "description": "d", "cron_expr": "*/20 * * * * *"}
    path = f"tasks/{said(api.post('tasks', t1), 201)['id']}"
    assert names(api.get("tasks")) == ["t1"]
    run = said(api.post(f"{path}/trigger"), 202)["run_id"]
    assert [row["id"] for row in said(api.get(f"{path}/runs"))["results"]] == [run]
    assert said(api.get(f"runs/{run}"))["trigger"] == "MANUAL"
    assert said(api.post(f"runs/{run}/cancel"))["status"] == "CANCELED"
    assert said(api.patch(f"{path}/disable"))
    assert said(api.patch(f"{path}/enable"))
    assert said(api.patch(path, {"cron_expr": "*/10 * * * * *"}))["cron_expr"] == "*/10 * * * * *"
    assert said(api.delete(path)) == {"deleted": True}


def test_phase_1_every_status_of_a_run_can_be_asked_for(reader):
    for status in (
        "SCHEDULED", "RUNNING", "SUCCESS", "FAILED", "TIMEOUT", "RETRYING", "CALLBACK_PENDING",
        "CALLBACK_SUCCESS", "FAILED_TIMEOUT", "CANCELED", "SKIPPED",
    ):  # fmt: skip
        run = make_run(status=status)
        (row,) = said(reader.get(f"runs?status={status}"))["results"]
        assert (row["id"], row["status"]) == (run.pk, status)


# --- ksana.md §4, §8, §17 -----------------------------------------------------------------------

PING = {
    "name": "ping", "http": {"method": "GET", "url": "https://example.com/ping"},
    "schedule": {"kind": "every", "every": "5m"},
}  # fmt: skip


def made(api, **parts):
    return said(api.post("/jobs", PING | parts), 201)


def test_ksana_4_times_are_kept_in_utc(api):
    once = {"kind": "once", "run_at": "2030-01-01T08:00:00+08:00"}
    job = made(api, schedule=once)
    assert job["schedule"]["run_at"] == job["next_run_at"] == "2030-01-01T00:00:00Z"
    every = PING["schedule"] | {"start_at": "2030-01-01T08:00:00+08:00"}
    job = made(api, name="b", schedule=every)
    assert job["schedule"]["start_at"] == job["next_run_at"] == "2030-01-01T00:00:00Z"
    assert TIME.fullmatch(made(api, name="c")["next_run_at"])


def test_ksana_4_the_type_of_a_job_is_always_http(api):
    assert made(api)["type"] == made(api, name="b", type="http")["type"] == "http"
    refused(api.post("/jobs", PING | {"type": "shell"}), 400, "INVALID_ARGUMENT", "type")


def test_ksana_8_a_job_is_a_task_of_the_other_api_too(api):
    job = made(api)
    (task,) = said(api.get("tasks"))["results"]
    assert (task["uuid"], task["name"], task["every"]) == (job["id"], "ping", "5m")
    said(api.post(f"/jobs/{job['id']}/pause"))
    assert said(api.get(f"tasks/{task['id']}"))["status"] == "DISABLED"
    said(api.patch(f"tasks/{task['id']}", {"name": "pong"}))
    assert said(api.get(f"/jobs/{job['id']}"))["name"] == "pong"
    assert api.delete(f"/jobs/{job['id']}").status_code == 204
    refused(api.get(f"tasks/{task['id']}"), 404, "NOT_FOUND")


def test_ksana_8_every_path_works_with_a_trailing_slash_and_tells_its_request(api):
    job = said(api.post("/jobs/", PING), 201)
    name, path = uuid.uuid4().hex, f"/jobs/{job['id']}"
    assert said(api.get("/jobs/")) == [job]
    assert said(api.get(f"{path}/")) == job
    assert said(api.patch(f"{path}/", {"timeout": "3s"}))["timeout"] == "3s"
    for verb, status in (("run-now", 202), ("pause", 200), ("resume", 200)):
        answer = api.post(f"{path}/{verb}/", X_Request_ID=name)
        assert (answer.status_code, answer["X-Request-ID"]) == (status, name)
    assert said(Api().get("/health/")) == {"status": "ok"}
    assert api.delete(f"{path}/").status_code == 204


def test_ksana_8_unknown_parameters_and_methods_are_refused(api):
    path = f"/jobs/{made(api)['id']}"
    for place in ("/jobs", path):
        refused(api.get(f"{place}?colour=red"), 400, "INVALID_ARGUMENT", "colour")
    refused(api.delete("/jobs"), 405, "METHOD_NOT_ALLOWED")
    refused(api.get(f"{path}/run-now"), 405, "METHOD_NOT_ALLOWED")
    refused(api.post(f"/jobs/{uuid.uuid4()}/run-now"), 404, "NOT_FOUND")


def test_ksana_17_a_call_carries_the_ids_that_were_told(api):
    body = '{"job_id": "<filled-by-service>", "run_id": "<filled-by-service>", "n": 1}'
    http = {"method": "POST", "url": "http://svc/", "body": body, "headers": {"X-Token": "abc"}}
    job = made(api, http=http)
    run_id = said(api.post(f"/jobs/{job['id']}/run-now"), 202)["run_id"]
    (run,) = claimed(clock.now() + MINUTE)
    request = calls.prepare(run, now=clock.now()).request
    headers = {name.lower(): value for name, value in dict(request.headers).items()}
    assert json.loads(request.body) == {"job_id": job["id"], "run_id": run_id, "n": 1}
    assert headers["x-ksana-run-id"] == run_id
    assert headers["x-token"] == "abc"


@pytest.mark.parametrize("method", ["GET", "POST"])
def test_ksana_17_get_and_post_are_supported(api, method):
    assert made(api, http=PING["http"] | {"method": method})["http"]["method"] == method


@pytest.mark.parametrize(
    ("part", "field"),
    [({"http": {"url": "ftp://x"}}, "http.url"),
     ({"http": {"url": "http://x", "headers": {"Host": "y"}}}, "http.headers"),
     ({"schedule": {"kind": "cron", "cron": "x"}}, "schedule.cron")],
)  # fmt: skip
def test_ksana_8_what_is_wrong_is_reported_by_the_name_it_has_in_a_job(api, part, field):
    refused(api.post("/jobs", PING | part), 400, "INVALID_ARGUMENT", field)
