import pytest
from django.core.management import call_command

from cronjob.api.errors import CODES
from tests import marks
from tests.factories import Api

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
            if path == "/api/v1/callbacks/{token}":  # the token is all that it takes
                assert {"400", "404", "410", "413", "429"} <= set(operation["responses"])
                assert not operation.get("security")
                continue
            assert {"400", "401", "403"} <= set(operation["responses"]), (path, verb)
            assert "Scope:" in operation["description"], (path, verb)
            assert operation["security"], (path, verb)


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
