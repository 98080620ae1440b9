import re
from pathlib import Path

import pytest
from django.core.management import call_command

from callbacks.models import AsyncCallback
from cronjob.api.errors import CODES
from cronjob.api.examples import EXAMPLES, PROBES
from runs.models import Pause
from runs.states import Status
from tasks.models import Task
from tests import marks
from tests.callbacks.reports import make_async, pending
from tests.factories import NOON, Api, make_run

pytestmark = marks.sqlite


@pytest.fixture
def schema(reader):
    answer = reader.get("/api/schema/")
    assert answer.status_code == 200
    return answer.json()


def test_the_description_is_valid_and_without_warnings(tmp_path):
    out = tmp_path / "openapi.yaml"
    call_command("spectacular", "--validate", "--fail-on-warn", "--file", str(out))
    assert "openapi: 3.1" in out.read_text()


def test_the_description_is_openapi_3_1_with_paths_as_written(schema):
    assert schema["openapi"].startswith("3.1")
    assert {
        "/api/v1/tasks",
        "/api/v1/tasks/{id}",
        "/api/v1/tasks/{id}/enable",
        "/api/v1/tasks/{id}/disable",
    } <= set(schema["paths"])


def test_every_operation_tells_its_errors_and_its_scope(schema):
    told = schema["components"]["schemas"]["Error"]["properties"]
    assert set(told) == {"code", "message", "request_id", "fields"}
    for path, verbs in schema["paths"].items():
        for verb, operation in verbs.items():
            if path in PROBES:
                continue
            if path == "/api/v1/callbacks/{token}":  # the token is all that it takes
                assert {"400", "404", "410", "413", "429"} <= set(operation["responses"])
                assert not operation.get("security")
                continue
            assert {"400", "401", "403"} <= set(operation["responses"]), (path, verb)
            assert "Scope:" in operation["description"], (path, verb)
            assert operation["security"], (path, verb)


def test_an_id_in_a_path_is_described_as_what_it_is(schema):
    for path, verbs in schema["paths"].items():
        for operation in verbs.values():
            given = {one["name"]: one["schema"] for one in operation.get("parameters", ())}
            if "{id}" not in path:
                continue
            if path.startswith("/jobs"):
                assert given["id"] == {"type": "string", "format": "uuid"}
            else:
                assert (given["id"]["type"], given["id"]["minimum"]) == ("integer", 1)


def test_headers_that_a_client_needs_are_described(schema):
    paths = schema["paths"]
    made = paths["/api/v1/tasks"]["post"]["responses"]["201"]
    assert set(made["headers"]) == {"Location", "ETag"}
    assert set(paths["/jobs"]["post"]["responses"]["201"]["headers"]) == {"Location"}
    for verb in ("get", "put", "patch"):
        told = paths["/api/v1/tasks/{id}"][verb]["responses"]["200"]
        assert set(told["headers"]) == {"ETag"}
    limited = paths["/api/v1/callbacks/{token}"]["post"]["responses"]["429"]
    assert set(limited["headers"]) == {"Retry-After"}


def test_every_path_is_in_a_document(schema):
    docs = Path(__file__).resolve().parent.parent.parent / "docs"
    written = "".join((docs / name).read_text() for name in ("api.md", "ksana.md"))
    told = set(re.findall(r"[A-Z] (/[a-z][^\s`?]*)", written))
    for path in schema["paths"]:
        assert path.removeprefix("/api/v1") in told, path


def test_every_operation_has_a_summary_and_an_example(schema):
    seen = {}
    for path, verbs in schema["paths"].items():
        for verb, operation in verbs.items():
            seen[operation["operationId"]] = (path, verb)
            assert operation["summary"], (path, verb)
            for status in {"200", "201", "202"} & set(operation["responses"]):
                for content in operation["responses"][status]["content"].values():
                    assert content["examples"], (path, verb)
            asked = operation.get("requestBody", {}).get("content", {})
            assert all(kind["examples"] for kind in asked.values()), (path, verb)
    assert set(seen) == {*EXAMPLES, *(path.rpartition("/")[2] for path in PROBES)}


@pytest.fixture
def there(api):
    """What the paths of the examples lead to."""
    task = Task.objects.get(pk=api.post("tasks", EXAMPLES["tasks_create"].body).json()["id"])
    Task.objects.filter(pk=task.pk).update(name="there", tags=["nightly"])
    run, token = pending(make_async())
    callback = AsyncCallback.objects.create(task_run=run, received_at=NOON, status="IGNORED")
    over = make_run(task=task, status=Status.FAILED)
    Pause.objects.create(tag="nightly", created_at=NOON)
    return {"task": task, "run": run, "over": over, "token": token, "callback": callback}


@pytest.mark.parametrize("name", EXAMPLES)
def test_every_example_is_true(schema, api, there, name):
    example = EXAMPLES[name]
    ((path, verb, told),) = [
        (path, verb, operation)
        for path, verbs in schema["paths"].items()
        for verb, operation in verbs.items()
        if operation["operationId"] == name
    ]
    task, run = there["task"], there["run"]
    run = there["over"] if "replay" in path else run
    ids = {"/tasks/": task.pk, "/runs/": run.pk, "/jobs/": task.uuid}
    ids["/callbacks/"] = there["callback"].pk if "{id}" in path else there["token"]
    one = next((ids[part] for part in ids if f"{part}{{" in path), "")
    body = example.body
    if name == "report_by_ids":
        body = body | {"task_id": run.task_id, "run_id": run.pk}
    url = path.replace("{id}", str(one)).replace("{token}", str(one)) + f"?{example.query}"
    answer = api.call(verb.upper(), url.rstrip("?"), body)
    assert str(answer.status_code) in told["responses"], answer.json()
    assert answer.status_code < 300, answer.json()
    if example.answer is not None:
        assert names(answer.json()) == names(example.answer)


@pytest.mark.parametrize("path", PROBES)
def test_what_machines_ask_is_described_with_what_they_are_told(schema, client, path):
    told, example = schema["paths"][path]["get"]["responses"], PROBES[path].answer
    answer = client.get(path)
    kind = answer.headers["Content-Type"].partition(";")[0]
    assert kind in told[str(answer.status_code)]["content"]
    if isinstance(example, dict):
        assert set(answer.json()) == set(example)
    else:
        assert re.match(r"ok$|v\d|# HELP", answer.content.decode())


def names(told):
    """What the object, or the first one of the list or page, has."""
    rows = told.get("results", told) if isinstance(told, dict) else told
    return set(rows[0] if isinstance(rows, list) else rows) - {"body_cut"}


def test_the_codes_of_errors_are_described(schema):
    code = schema["components"]["schemas"]["Error"]["properties"]["code"]
    assert set(code["enum"]) == set(CODES)


def test_a_task_is_described_with_all_its_fields(schema):
    task = schema["components"]["schemas"]["Task"]["properties"]
    asked = schema["components"]["schemas"]["TaskRequest"]["properties"]
    assert {"every", "retry_policy", "last_run", "next_run_at"} <= set(task)
    assert "last_run" not in asked
    assert schema["components"]["schemas"]["TaskRequest"]["required"] == ["name"]


def test_the_docs_page_loads_nothing_from_elsewhere(console):
    page = console.get("/api/docs/")
    assert page.status_code == 200
    assert "/static/drf_spectacular_sidecar/" in page.text
    assert "https://" not in page.text


def test_the_docs_page_is_not_for_strangers(db):
    answer = Api().get("/api/docs/")
    assert (answer.status_code, answer.json()["code"]) == (401, "UNAUTHENTICATED")
