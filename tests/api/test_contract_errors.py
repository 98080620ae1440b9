"""API.md on who may do what and on what is answered to a mistake: real requests for each."""

import uuid

import pytest

from callbacks.models import AsyncCallback
from runs.models import TaskRun
from tasks.changes import Verb, note
from tests import marks
from tests.api.contract import LEAST, refused, said
from tests.api.test_contract_runs import REPORT, retried
from tests.callbacks.reports import make_async, pending, post
from tests.factories import NOON, Api, make_api, make_key, make_run, make_task

pytestmark = marks.both


# --- the error table ----------------------------------------------------------------------------


def test_invalid_json_is_a_body_that_is_not_json(api):
    for method, path in (
        ("POST", "tasks"),
        ("PATCH", f"tasks/{make_task().pk}"),
        ("POST", "/jobs"),
    ):
        refused(api.call(method, path, "{'a': 1}"), 400, "INVALID_JSON")


def test_invalid_argument_is_a_missing_unknown_or_bad_field_or_parameter(api):
    refused(api.post("tasks", {}), 400, "INVALID_ARGUMENT", "name")
    refused(api.post("tasks", LEAST | {"colour": 1}), 400, "INVALID_ARGUMENT", "colour")
    refused(api.post("tasks", LEAST | {"every": "x"}), 400, "INVALID_ARGUMENT", "every")
    refused(api.get("tasks?colour=1"), 400, "INVALID_ARGUMENT", "colour")
    refused(api.get("tasks?page=x"), 400, "INVALID_ARGUMENT", "page")


def test_invalid_id_is_a_path_id_that_is_none(api):
    for path in ("tasks/x", "tasks/x/runs", "tasks/x/next", "runs/x", "runs/x/callbacks"):
        refused(api.get(path), 400, "INVALID_ID")
    for path in ("tasks/x/trigger", "tasks/x/enable", "runs/x/cancel", "runs/x/replay"):
        refused(api.post(path), 400, "INVALID_ID")
    refused(api.get("callbacks/x"), 400, "INVALID_ID")
    refused(api.get("/jobs/x"), 400, "INVALID_ID")


def test_unauthenticated_is_no_valid_key(db):
    for key in ("", "nonsense", "x" * 5000):
        for path in ("tasks", "runs", "callbacks", "/jobs", "/api/v1/"):
            refused(Api(key).get(path), 401, "UNAUTHENTICATED")


def test_forbidden_is_a_key_without_the_scope(reader):
    refused(reader.post("tasks", LEAST), 403, "FORBIDDEN")


def test_not_found_is_an_id_or_a_path_that_is_not_there(api):
    for path in ("tasks/4711", "tasks/4711/runs", "runs/4711", "callbacks/4711", "nothing"):
        refused(api.get(path), 404, "NOT_FOUND")
    refused(api.get("tasks/4711/next"), 404, "NOT_FOUND")
    refused(api.post("tasks/4711/trigger"), 404, "NOT_FOUND")
    refused(api.get(f"/jobs/{uuid.uuid4()}"), 404, "NOT_FOUND")


def test_method_not_allowed_is_told(api):
    task, run = make_task().pk, make_run().pk
    for method, path in (("DELETE", "tasks"), ("POST", f"tasks/{task}"), ("PUT", f"runs/{run}")):
        refused(api.call(method, path, {}), 405, "METHOD_NOT_ALLOWED")
    refused(api.get(f"tasks/{task}/trigger"), 405, "METHOD_NOT_ALLOWED")
    refused(api.get(f"runs/{run}/cancel"), 405, "METHOD_NOT_ALLOWED")


def test_name_taken_is_the_name_of_another_live_task(api):
    make_task(name="a")
    other = make_task(name="b")
    refused(api.post("tasks", LEAST | {"name": "a"}), 409, "NAME_TAKEN")
    refused(api.patch(f"tasks/{other.pk}", {"name": "a"}), 409, "NAME_TAKEN")
    refused(api.put(f"tasks/{other.pk}", LEAST | {"name": "a"}), 409, "NAME_TAKEN")
    assert said(api.patch(f"tasks/{other.pk}", {"name": "b"}))


def test_concurrency_limit_is_a_trigger_or_replay_under_skip_and_makes_nothing(api):
    task = make_task(concurrency_policy="SKIP")
    over = make_run(task=task, status="FAILED")
    make_run(task=task, status="RUNNING", slot=1)
    for path in (f"tasks/{task.pk}/trigger", f"runs/{over.pk}/replay"):
        refused(api.post(path), 409, "CONCURRENCY_LIMIT")
    assert TaskRun.objects.count() == 2


def test_version_conflict_is_a_version_that_is_not_the_current_one(api):
    path = f"tasks/{make_task(version=3).pk}"
    refused(api.patch(path, {"version": 2, "description": "x"}), 409, "VERSION_CONFLICT")
    refused(api.patch(path, {"description": "x"}, If_Match='"4"'), 409, "VERSION_CONFLICT")
    assert said(api.patch(path, {"description": "x"}, If_Match='"3"'))


def test_invalid_state_is_a_cancel_a_replay_or_a_callback_in_the_wrong_one(api):
    refused(api.post(f"runs/{make_run(status='SUCCESS').pk}/cancel"), 409, "INVALID_STATE")
    run = make_run(status="RUNNING")
    refused(api.post(f"runs/{run.pk}/replay"), 409, "INVALID_STATE")
    body = REPORT | {"task_id": run.task_id, "run_id": run.pk}
    refused(api.post("callbacks", body), 409, "INVALID_STATE")  # a SYNC task awaits none


def test_idempotency_conflict_is_the_same_key_with_another_body(api):
    path = f"tasks/{make_task().pk}/trigger"
    said(api.post(path, {"override_body": "a"}, Idempotency_Key="k"), 202)
    answer = api.post(path, {"override_body": "b"}, Idempotency_Key="k")
    refused(answer, 409, "IDEMPOTENCY_CONFLICT")


def test_gone_is_a_failure_on_the_token_of_an_earlier_attempt():
    refused(post(retried()[1], {"status": "FAILED"}), 410, "GONE")


def test_payload_too_large_is_a_body_over_the_cap(api):
    large = b'"' + b"x" * (4 * 2**20) + b'"'
    for path in ("tasks", "/jobs", "tasks/preview"):
        refused(api.post(path, large), 413, "PAYLOAD_TOO_LARGE")
    _, token = pending()
    refused(post(token, b'"' + b"x" * 2**20 + b'"'), 413, "PAYLOAD_TOO_LARGE")


def test_rate_limited_is_whoever_tries_token_after_token():
    answers = (post("x") for _ in range(1000))
    answer = next(answer for answer in answers if answer.status_code != 404)
    refused(answer, 429, "RATE_LIMITED")
    assert int(answer["Retry-After"]) > 0


def test_a_bad_part_of_a_nested_object_is_reported_under_its_name(api):
    body = LEAST | {"retry_policy": {"max_delay": "x"}}
    assert list(api.post("tasks", body).json()["fields"]) == ["retry_policy"]


def test_a_deleted_task_is_not_found_by_any_verb_but_its_runs_are(api):
    run = make_run(status="SUCCESS")
    path = f"tasks/{run.task_id}"
    said(api.delete(path))
    refused(api.get(path), 404, "NOT_FOUND")
    refused(api.put(path, LEAST), 404, "NOT_FOUND")
    assert said(api.get(f"{path}/runs"))["count"] == 1
    assert said(api.get(f"runs?task_id={run.task_id}"))["count"] == 1
    assert api.post(f"runs/{run.pk}/replay").status_code in (404, 409)  # it never runs again


@pytest.mark.parametrize(
    ("method", "rest", "body"),
    [("PUT", "", {}), ("PATCH", "", {"colour": 1}), ("POST", "/trigger", {"colour": 1})],
)
def test_a_deleted_task_is_not_found_whatever_is_asked_of_it(api, method, rest, body):
    path = f"tasks/{make_task().pk}"
    said(api.delete(path))
    refused(api.call(method, path + rest, body), 404, "NOT_FOUND")


def test_unknown_fields_and_parameters_are_refused_wherever_runs_are_concerned(api):
    over, run = make_run(status="FAILED").pk, make_run().pk
    bodies = [f"runs/{run}/cancel", f"runs/{over}/replay", "pause", "resume"]
    for path in bodies:
        refused(api.post(path, {"colour": 1}), 400, "INVALID_ARGUMENT", "colour")
        refused(api.post(f"{path}?colour=1", {}), 400, "INVALID_ARGUMENT", "colour")
    for path in ("runs", f"runs/{run}", f"runs/{run}/callbacks", "callbacks", "/api/v1/"):
        refused(api.get(f"{path}?colour=1"), 400, "INVALID_ARGUMENT", "colour")
    assert said(api.get(f"runs/{run}"))["status"] == "SCHEDULED"


@pytest.mark.parametrize("path", ["healthz?a=1", "readyz?a=1", "version?a=1"])
def test_a_probe_answers_whatever_a_balancer_adds_to_it(db, path):
    assert Api().get(path).status_code == 200


def test_what_cannot_be_required_of_a_probe_is_refused(db):
    refused(Api().get("readyz?require=schedulers"), 400, "INVALID_ARGUMENT", "require")


@pytest.mark.parametrize("verb", ["run-now", "pause", "resume"])
def test_unknown_fields_of_the_verbs_of_ksana_are_refused(api, verb):
    answer = api.post(f"/jobs/{make_task().uuid}/{verb}", {"colour": 1})
    refused(answer, 400, "INVALID_ARGUMENT", "colour")


def test_every_answer_carries_the_id_of_its_request(api):
    name = uuid.uuid4().hex
    paths = ("/metrics", "/health", "/jobs", "/api/schema/", "/api/docs/", "/nothing", "tasks/x",
             "healthz", "readyz", "version", "callbacks")  # fmt: skip
    for path in paths:
        assert api.get(path, X_Request_ID=name)["X-Request-ID"] == name
        assert Api().get(path)["X-Request-ID"]
    assert post("0" * 32, REPORT, X_Request_ID=name)["X-Request-ID"] == name


# --- who may do what ----------------------------------------------------------------------------

READ = [
    ("GET", path, None)
    for path in (
        "/api/v1/", "tasks", "tasks/{task}", "tasks/{task}/runs", "tasks/{task}/next",
        "tasks/{task}/changes", "tasks/{task}/explain?at=2026-01-01T12:00:00Z", "pause",
        "runs", "runs/{over}", "runs/{over}/callbacks", "callbacks", "callbacks/{callback}",
        "/jobs", "/jobs/{uuid}", "/api/schema/", "/api/docs/",
    )
]  # fmt: skip
READ += [("POST", "tasks/preview", {"every": "5m"})]
OPERATE = [
    ("POST", "tasks/{task}/trigger", {}), ("POST", "runs/{run}/cancel", {}),
    ("POST", "runs/{over}/replay", {}), ("POST", "tasks/{task}/disable", {}),
    ("PATCH", "tasks/{task}/enable", {}), ("POST", "pause", {}), ("POST", "resume", {}),
    ("POST", "callbacks", {"task_id": 4711, "run_id": 4711, "status": "SUCCESS"}),
    ("POST", "/jobs/{uuid}/run-now", {}), ("POST", "/jobs/{uuid}/pause", {}),
    ("POST", "/jobs/{uuid}/resume", {}),
    ("POST", "tasks/bulk", {"filter": {"name": "none"}, "action": "disable"}),
    ("POST", "runs/bulk", {"filter": {"status": "TIMEOUT"}, "action": "replay"}),
]  # fmt: skip
WRITE = [
    ("POST", "tasks", LEAST), ("PUT", "tasks/{task}", LEAST | {"name": "b"}),
    ("PATCH", "tasks/{task}", {"description": "c"}),
    ("POST", "/jobs", {"name": "j", "http": {"url": "http://svc/"},
                       "schedule": {"kind": "every", "every": "5m"}}),
    ("PATCH", "/jobs/{uuid}", {"timeout": "3s"}),
    ("POST", "tasks/bulk", {"filter": {"name": "none"}, "action": "delete"}),
    ("POST", "tasks/{task}/restore", {"version": 1}), ("DELETE", "tasks/{task}", None),
]  # fmt: skip


@pytest.mark.parametrize(
    ("scope", "may"),
    [
        ("read", READ), ("operate", READ + OPERATE), ("write", READ + OPERATE + WRITE),
        ("worker", READ), ("node", []), ("session", []),
    ],
)  # fmt: skip
def test_a_scope_opens_what_the_document_says_and_nothing_else(scope, may):
    api = make_api(scope)
    task = make_task(concurrency_policy="PARALLEL")
    note(task, Verb.CREATE, by="key ci", now=NOON)
    over = make_run(task=task, status="FAILED")
    callback = AsyncCallback.objects.create(task_run=over, received_at=NOON, status="IGNORED")
    known = {
        "task": task.pk, "uuid": task.uuid, "run": make_run(task=task).pk, "over": over.pk,
        "callback": callback.pk,
    }  # fmt: skip
    for method, path, body in READ + OPERATE + WRITE:
        answer = api.call(method, path.format(**known), body)
        if (method, path, body) in may:
            assert answer.status_code < 300 or "4711" in str(body), (path, answer.content)
        else:
            refused(answer, 403, "FORBIDDEN")


def test_without_a_key_nothing_opens_but_what_is_named(db):
    task = make_task()
    known = {"task": task.pk, "uuid": task.uuid, "run": 1, "over": 1, "callback": 1}
    for method, path, body in READ + OPERATE + WRITE:
        answer = Api().call(method, path.format(**known), body)
        login = path in ("/api/schema/", "/api/docs/") and answer.status_code == 302
        assert login or answer.status_code == 401, path
    for path in ("healthz", "readyz", "version", "/health"):
        assert Api().get(path).status_code == 200
    assert Api().client.get("/admin/login/").status_code == 200
    _, token = pending(make_async())
    assert post(token).status_code == 200


def test_a_key_may_be_sent_as_bearer_or_as_token(db):
    key = make_key("read")
    for word, status in (("Bearer", 200), ("Token", 200), ("Basic", 401)):
        assert Api().get("tasks", Authorization=f"{word} {key}").status_code == status


def test_a_login_opens_the_api_too(console):
    assert console.get("/api/v1/tasks").status_code == 200
