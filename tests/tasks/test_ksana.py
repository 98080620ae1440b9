"""Ksana's document, section by section: its API, its acceptance list, its minimal tests."""

import uuid

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from runs.states import Status
from tasks.models import Task
from tests import marks
from tests.factories import Api, make_api, make_run, make_task

pytestmark = marks.both

FIELDS = {
    "id", "name", "enabled", "type", "http", "schedule", "timeout", "max_retries",
    "retry_backoff", "last_run_at", "next_run_at", "last_status", "last_error",
}  # fmt: skip
PING = {
    "name": "ping service",
    "http": {"method": "GET", "url": "http://example.internal/ping"},
    "schedule": {"kind": "every", "every": "5m"},
}
ORDER = {
    "id": "", "name": "notify-order", "enabled": True, "type": "http",
    "http": {
        "method": "POST",
        "url": "http://orders.internal/notify",
        "headers": {"Content-Type": "application/json"},
        "body": '{\n  "event": "order.received",\n  "job_id": "<filled-by-service>",\n'
        '  "run_id": "<filled-by-service>",\n  "payload": {"order_id": 12345}\n}',
    },
    "schedule": {"kind": "every", "every": "5m"},
    "timeout": "10s", "max_retries": 3, "retry_backoff": "5s",
}  # fmt: skip


@pytest.fixture
def post(api):
    def post(**parts):
        answer = api.post("/jobs", PING | parts)
        assert answer.status_code == 201, answer.json()
        return answer.json()

    return post


def refused(answer, *fields, code="INVALID_ARGUMENT", status=400):
    assert (answer.status_code, answer.json()["code"]) == (status, code), answer.json()
    assert set(answer.json()) >= {"code", "message", "request_id"}
    if fields:
        assert list(answer.json()["fields"]) == [*fields]


def told(api, job):
    answer = api.get(f"/jobs/{job['id']}")
    assert answer.status_code == 200
    return answer.json()


def task_of(job):
    return Task.objects.get(uuid=job["id"])


# --- §4: a job as JSON --------------------------------------------------------------------------


def test_a_job_has_the_shape_of_the_document(post):
    job = post(
        http=PING["http"] | {"headers": {"X-Trace": "abc"}, "body": ""},
        schedule={"kind": "every", "every": "5m", "start_at": "", "jitter": "5s"},
        timeout="10s", max_retries=3, retry_backoff="5s",
    )  # fmt: skip
    assert set(job) == FIELDS
    assert uuid.UUID(job["id"])
    assert job["http"] == {
        "method": "GET", "url": "http://example.internal/ping",
        "headers": {"X-Trace": "abc"}, "body": "",
    }  # fmt: skip
    assert job["schedule"] == {"kind": "every", "every": "5m", "start_at": "", "jitter": "5s"}
    assert (job["timeout"], job["max_retries"], job["retry_backoff"]) == ("10s", 3, "5s")
    assert (job["enabled"], job["type"]) == (True, "http")
    assert (job["last_run_at"], job["last_status"], job["last_error"]) == ("", "", "")
    assert job["next_run_at"].endswith("Z")


def test_what_is_left_out_takes_the_defaults_of_the_document(post):
    job = post()
    assert (job["timeout"], job["max_retries"], job["retry_backoff"]) == ("10s", 3, "5s")
    task = task_of(job)
    assert task.retry_policy["strategy"] == "fixed"
    assert (task.misfire_policy, task.concurrency_policy, task.max_concurrency) == (
        "SKIP", "SKIP", 1,
    )  # fmt: skip


def test_the_example_of_the_document_is_taken_as_it_stands(api):
    answer = api.post("/jobs", ORDER)
    assert answer.status_code == 201
    job = answer.json()
    assert {name: job[name] for name in ORDER if name not in ("id", "schedule")} == {
        name: value for name, value in ORDER.items() if name not in ("id", "schedule")
    }


@pytest.mark.parametrize(
    ("text", "shown"),
    [("1h30m", "1h30m"), ("90s", "1m30s"), ("1.5h", "1h30m"), ("120000ms", "2m"), ("1d", "24h")],
)
def test_durations_are_text_as_go_writes_them(post, text, shown):
    assert post(schedule={"kind": "every", "every": text})["schedule"]["every"] == shown


@pytest.mark.parametrize(
    ("text", "shown"), [("1500ms", "1.5s"), ("1m0.5s", "1m0.5s"), ("100ms", "0.1s")]
)
def test_a_timeout_may_be_a_part_of_a_second(post, text, shown):
    assert post(timeout=text)["timeout"] == shown


@pytest.mark.parametrize(
    ("parts", "field"),
    [
        ({"schedule": {"kind": "every", "every": "5 minutes"}}, "schedule.every"),
        ({"schedule": {"kind": "every", "every": "1500ms"}}, "schedule.every"),
        ({"schedule": {"kind": "every", "every": "0s"}}, "schedule.every"),
        ({"schedule": {"kind": "every", "every": "-5m"}}, "schedule.every"),
        ({"schedule": {"kind": "every"}}, "schedule.every"),
        ({"schedule": {"kind": "once"}}, "schedule.run_at"),
        ({"schedule": {"kind": "once", "run_at": "tomorrow"}}, "schedule.run_at"),
        (
            {"schedule": {"kind": "once", "run_at": "2999-01-01T00:00:00Z", "every": "5m"}},
            "schedule.every",
        ),
        ({"schedule": {"kind": "cron"}}, "schedule.cron"),
        ({"schedule": {"kind": "cron", "cron": "nonsense"}}, "schedule.cron"),
        ({"schedule": {"kind": "hourly"}}, "schedule.kind"),
        ({"schedule": {"kind": "every", "every": "5m", "evry": 1}}, "schedule.evry"),
        ({"http": {"method": "GET"}}, "http.url"),
        ({"http": {"method": "GET", "url": "ftp://x/"}}, "http.url"),
        ({"http": {"method": "FETCH", "url": "http://x/"}}, "http.method"),
        ({"http": {"url": "http://x/", "headers": {"Host": "y"}}}, "http.headers"),
        ({"timeout": "0s"}, "timeout"),
        ({"timeout": "2d"}, "timeout"),
        ({"max_retries": -1}, "max_retries"),
        ({"max_retries": "3"}, "max_retries"),
        ({"retry_backoff": "soon"}, "retry_backoff"),
        ({"enabled": "yes"}, "enabled"),
        ({"type": "shell"}, "type"),
        ({"type": "job"}, "type"),
        ({"timeout": 10**400}, "timeout"),
        ({"retry_backoff": 10**400}, "retry_backoff"),
        ({"schedule": {"kind": "every", "every": 10**400}}, "schedule.every"),
        ({"colour": "red"}, "colour"),
        ({"name": ""}, "name"),
        ({"id": "uuid-1"}, "id"),
    ],
)
def test_what_is_not_valid_is_refused_by_name(api, parts, field):
    refused(api.post("/jobs", PING | parts), field)
    assert not Task.objects.exists()


def test_texts_are_sent_as_they_stand_braces_and_all(api, post):
    http = {
        "method": "POST", "url": "http://x/{{nobody}}", "headers": {"X-A": "{{ b }}"},
        "body": "{{ run_id }} {{{ }}",
    }  # fmt: skip
    job = post(http=http)
    assert job["http"] == http
    assert told(api, job)["http"] == http
    assert "{{ run_id }}" not in task_of(job).body_template


def test_a_task_with_placeholders_keeps_them_through_the_dialect(api):
    task = make_task(body_template="{{ run_id }}", target_url="http://x/{{ task_id }}")
    path = f"/jobs/{task.uuid}"
    http = api.get(path).json()["http"]
    assert (http["url"], http["body"]) == ("http://x/{{ task_id }}", "{{ run_id }}")
    assert api.patch(path, {"http": http, "timeout": "7s"}).status_code == 200
    task.refresh_from_db()
    assert (task.body_template, task.target_url) == ("{{ run_id }}", "http://x/{{ task_id }}")


# --- §8: the management API ---------------------------------------------------------------------


def test_post_jobs_answers_the_whole_job(api):
    answer = api.post("/jobs", PING)
    assert answer.status_code == 201
    assert answer.json() == told(api, answer.json())


@pytest.mark.parametrize("form", [str, lambda name: name.hex, lambda name: str(name).upper()])
def test_a_well_formed_id_that_is_free_is_kept(post, form):
    name = uuid.uuid4()
    assert post(id=form(name))["id"] == str(name)


@pytest.mark.parametrize("deleted", [False, True])
def test_an_id_that_is_taken_is_a_conflict(api, post, deleted):
    job = post()
    if deleted:
        api.delete(f"/jobs/{job['id']}")
    refused(api.post("/jobs", PING | {"id": job["id"], "name": "b"}), code="NAME_TAKEN", status=409)


def test_a_name_that_is_taken_is_a_conflict(api, post):
    post()
    refused(api.post("/jobs", PING), code="NAME_TAKEN", status=409)


def test_system_fields_sent_back_are_ignored(api, post):
    job = post()
    system = {
        "last_run_at": "2020-01-01T00:00:00Z", "next_run_at": "x", "last_status": "gone",
        "last_error": "?", "created_at": "", "updated_at": "",
    }  # fmt: skip
    answer = api.post("/jobs", job | system | {"id": "", "name": "copy"})
    assert answer.status_code == 201
    assert answer.json()["last_status"] == ""
    assert api.patch(f"/jobs/{job['id']}", job | system).json() == job


def test_get_jobs_is_an_array_of_tasks_of_every_origin(api, post):
    assert api.get("/jobs").json() == []
    first = post()
    second = make_task(cron_expr="0 */5 * * * *", name="by cron")
    third = make_task(schedule_kind="MANUAL")
    listed = api.get("/jobs").json()
    assert [job["id"] for job in listed] == [first["id"], str(second.uuid), str(third.uuid)]
    assert listed[1]["schedule"] == {"kind": "cron", "cron": "0 */5 * * * *"}
    assert listed[2]["schedule"] == {"kind": "manual"}
    assert all(set(job) == FIELDS for job in listed)


def test_a_list_costs_the_same_number_of_queries_whatever_its_length(reader):
    def cost():
        with CaptureQueriesContext(connection) as queries:
            reader.get("/jobs")
        return len(queries)

    make_run(status=Status.SUCCESS)
    cost()  # the first use of a key is written down
    few = cost()
    for _ in range(10):
        make_run(status=Status.SUCCESS)
    assert cost() == few


def test_get_one_job_or_say_that_there_is_none(api, post):
    job = post()
    assert told(api, job) == job
    refused(api.get(f"/jobs/{uuid.uuid4()}"), code="NOT_FOUND", status=404)
    refused(api.get("/jobs/uuid-1"), code="INVALID_ID")


def test_a_cron_schedule_is_taken_too(post):
    assert post(schedule={"kind": "cron", "cron": "*/5 * * * *"})["schedule"] == {
        "kind": "cron", "cron": "0 */5 * * * *",
    }  # fmt: skip


def test_patch_changes_the_parts_that_are_given(api, post):
    job = post(http=PING["http"] | {"headers": {"A": "1", "B": "2"}})
    answer = api.patch(
        f"/jobs/{job['id']}",
        {
            "name": "renamed", "http": {"method": "POST", "headers": {"B": "3", "C": "4"}},
            "timeout": "3s", "max_retries": 1, "retry_backoff": "1m",
        },
    )  # fmt: skip
    assert answer.status_code == 200
    changed = answer.json()
    assert changed["http"] == {
        "method": "POST", "url": job["http"]["url"], "headers": {"A": "1", "B": "3", "C": "4"},
        "body": "",
    }  # fmt: skip
    assert (changed["name"], changed["timeout"]) == ("renamed", "3s")
    assert (changed["max_retries"], changed["retry_backoff"]) == (1, "1m")
    assert (changed["schedule"], changed["next_run_at"]) == (job["schedule"], job["next_run_at"])


def test_patch_with_null_takes_a_part_away(api, post):
    job = post(http=PING["http"] | {"headers": {"A": "1", "B": "2"}})
    answer = api.patch(f"/jobs/{job['id']}", {"http": {"headers": {"A": None}}})
    assert answer.json()["http"]["headers"] == {"B": "2"}


def test_patch_of_a_schedule_merges_or_begins_anew(api, post):
    job = post(schedule={"kind": "every", "every": "5m", "jitter": "5s"})
    path = f"/jobs/{job['id']}"
    merged = api.patch(path, {"schedule": {"every": "10m"}}).json()["schedule"]
    assert (merged["every"], merged["jitter"]) == ("10m", "5s")
    once = api.patch(path, {"schedule": {"kind": "once", "run_at": "2999-01-01T00:00:00Z"}})
    assert once.json()["schedule"] == {"kind": "once", "run_at": "2999-01-01T00:00:00Z"}
    assert once.json()["next_run_at"] == "2999-01-01T00:00:00Z"


def test_patch_of_the_retries_keeps_the_rest_of_the_policy(api):
    task = make_task(retry_policy={"max_retries": 1, "initial_delay": 2, "strategy": "exponential"})
    api.patch(f"/jobs/{task.uuid}", {"max_retries": 9})
    task.refresh_from_db()
    assert (task.retry_policy["max_retries"], task.retry_policy["strategy"]) == (9, "exponential")


@pytest.mark.parametrize("change", [{"enabled": False}, None])
def test_a_job_is_paused_and_resumed(api, post, change):
    job = post()
    path = f"/jobs/{job['id']}"
    answer = api.patch(path, change) if change else api.post(f"{path}/pause")
    assert answer.status_code == 200
    paused = answer.json()
    assert (paused["enabled"], paused["next_run_at"], paused["last_status"]) == (
        False, "", "paused",
    )  # fmt: skip
    answer = api.patch(path, {"enabled": True}) if change else api.post(f"{path}/resume")
    assert (answer.status_code, answer.json()["enabled"]) == (200, True)
    assert answer.json()["next_run_at"] > job["next_run_at"] or answer.json()["last_status"] == ""


def test_a_job_can_be_made_paused(post):
    job = post(enabled=False)
    assert (job["enabled"], job["last_status"], job["next_run_at"]) == (False, "paused", "")


def test_delete_answers_nothing_and_the_job_is_gone(api, post):
    job = post()
    answer = api.delete(f"/jobs/{job['id']}")
    assert (answer.status_code, answer.content) == (204, b"")
    refused(api.get(f"/jobs/{job['id']}"), code="NOT_FOUND", status=404)
    refused(api.delete(f"/jobs/{job['id']}"), code="NOT_FOUND", status=404)
    assert api.get("/jobs").json() == []


def test_health_answers_without_a_key():
    answer = Api().get("/health")
    assert (answer.status_code, answer.json()) == (200, {"status": "ok"})
    browser = Client(enforce_csrf_checks=True)
    for method in ("POST", "PUT", "DELETE"):
        refused(browser.generic(method, "/health"), code="METHOD_NOT_ALLOWED", status=405)


def test_each_verb_needs_its_scope(reader, post):
    job, operator = post(), make_api("operate")
    path = f"/jobs/{job['id']}"
    refused(Api().get("/jobs"), code="UNAUTHENTICATED", status=401)
    for method, place in (("POST", "/jobs"), ("PATCH", path), ("DELETE", path)):
        refused(operator.call(method, place, {}), code="FORBIDDEN", status=403)
    for verb in ("run-now", "pause", "resume"):
        refused(reader.post(f"{path}/{verb}"), code="FORBIDDEN", status=403)
        assert operator.post(f"{path}/{verb}").status_code < 300


def test_who_may_not_change_a_job_does_not_see_its_secrets(reader, api, post):
    job = post(http={"url": "http://x/?token=hush", "headers": {"X-Token": "hush"}})
    assert "hush" not in reader.get("/jobs").text + reader.get(f"/jobs/{job['id']}").text
    assert told(api, job)["http"]["headers"] == {"X-Token": "hush"}
    shown = told(reader, job)
    assert api.patch(f"/jobs/{job['id']}", {"http": shown["http"]}).json()["http"] == job["http"]


def test_a_body_that_is_no_json_is_said_to_be_none(api):
    refused(api.post("/jobs", "{"), code="INVALID_JSON")
