import json

import pytest
from django.core.exceptions import PermissionDenied, RequestDataTooBig
from django.http import Http404
from django.test import Client
from django.urls import path
from rest_framework import exceptions
from rest_framework.permissions import AllowAny
from rest_framework.views import APIView

from cronjob import urls
from cronjob.api import errors, parsing
from cronjob.api.errors import CODES, ApiError
from tests import marks
from tests.factories import Api, make_api, make_run, make_task

pytestmark = marks.sqlite

RAISED: dict[str, Exception] = {}


class Failing(APIView):
    permission_classes = (AllowAny,)
    authentication_classes = ()

    def get(self, request, name):
        raise RAISED[name]


urlpatterns = [*urls.urlpatterns, path("fail/<name>", Failing.as_view())]
handler400, handler404, handler500 = errors.bad_request, errors.not_found, errors.internal


@pytest.fixture
def failing(settings):
    settings.ROOT_URLCONF = __name__

    def ask(error):
        RAISED["it"] = error
        return Client(raise_request_exception=False).get("/fail/it")

    return ask


@pytest.mark.parametrize("code", CODES)
def test_every_code_comes_with_its_status_in_the_one_shape(failing, code):
    answer = failing(ApiError(code, "What happened."))
    assert answer.status_code == CODES[code]
    assert answer.json() == {
        "code": code,
        "message": "What happened.",
        "request_id": answer["X-Request-ID"],
    }


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (exceptions.ValidationError({"a": ["b"]}), "INVALID_ARGUMENT"),
        (exceptions.ParseError(), "INVALID_JSON"),
        (exceptions.NotAuthenticated(), "UNAUTHENTICATED"),
        (exceptions.AuthenticationFailed(), "UNAUTHENTICATED"),
        (exceptions.PermissionDenied(), "FORBIDDEN"),
        (PermissionDenied(), "FORBIDDEN"),
        (exceptions.NotFound(), "NOT_FOUND"),
        (Http404(), "NOT_FOUND"),
        (exceptions.Throttled(wait=7), "RATE_LIMITED"),
        (RequestDataTooBig(), "PAYLOAD_TOO_LARGE"),
    ],
)
def test_what_django_and_drf_raise_is_told_in_our_words(failing, error, code):
    answer = failing(error)
    assert (answer.status_code, answer.json()["code"]) == (CODES[code], code)


def test_internal_is_a_surprise_told_without_details_and_logged_with_them(failing, caplog):
    answer = failing(ZeroDivisionError("secret detail"))
    assert (answer.status_code, answer.json()["code"]) == (500, "INTERNAL")
    assert "secret detail" not in answer.text
    assert "secret detail" in caplog.text


def test_whoever_is_too_fast_is_told_when_to_come_back(failing):
    assert failing(exceptions.Throttled(wait=7))["Retry-After"] == "7"


def test_nested_mistakes_are_flat(failing):
    error = exceptions.ValidationError({"a": {"b": [{}, {"c": ["no"]}]}, "d": ["x", "y"]})
    assert failing(error).json()["fields"] == {"a.b[1].c": ["no"], "d": ["x", "y"]}


@pytest.mark.parametrize(
    "body",
    [
        "{",
        "",
        "nope",
        '{"a": NaN}',
        '{"a": 1e999}',
        '{"name": "\\u0000"}',
        '{"name": "\\ud800"}',
        '{"\\u0000": 1}',
        "[" * 100_000,
        '{"a":' * 80 + "1" + "}" * 80,
        '{"a": ' + "9" * 5000 + "}",
        b'{"name": "\xff"}',
    ],
)
def test_what_is_not_json_or_cannot_be_kept_is_invalid_json(api, body):
    answer = api.post("tasks", body or " ")
    assert (answer.status_code, answer.json()["code"]) == (400, "INVALID_JSON")


@pytest.mark.parametrize("body", ["[]", "1", '"text"', "null"])
def test_a_body_is_an_object(api, body):
    answer = api.post("tasks", body)
    assert (answer.status_code, answer.json()["code"]) == (400, "INVALID_ARGUMENT")


def test_a_body_is_json_whatever_its_content_type_says(api):
    body = json.dumps({"name": "t", "target_url": "http://svc/", "every": 60})
    for kind in ("application/x-www-form-urlencoded", "text/plain", ""):
        answer = api.client.generic(
            "POST", "/api/v1/tasks", body.replace('"t"', f'"{kind}t"'), kind
        )
        assert answer.status_code == 201, answer.json()


def test_a_body_over_the_cap_is_refused_before_it_is_read(api):
    answer = api.post("tasks", " " * (parsing.BYTES_MAX + 1))
    assert (answer.status_code, answer.json()["code"]) == (413, "PAYLOAD_TOO_LARGE")


@pytest.mark.parametrize("name", ["abc", "0", "-1", "1.5", "9" * 19, "9" * 40, "1e3", "٣"])
def test_an_id_that_is_none_is_told_from_one_that_is_unknown(api, name):
    answer = api.get(f"tasks/{name}")
    assert (answer.status_code, answer.json()["code"]) == (400, "INVALID_ID")


def test_an_unknown_id_or_path_is_not_found(api):
    for place in ("tasks/4711", "tusks", "tasks/1/2/3"):
        answer = api.get(place)
        assert (answer.status_code, answer.json()["code"]) == (404, "NOT_FOUND")


def test_a_method_that_is_not_allowed_is_named(api):
    answer = api.delete("tasks")
    assert (answer.status_code, answer.json()["code"]) == (405, "METHOD_NOT_ALLOWED")
    assert "DELETE" in answer.json()["message"]


def test_json_is_answered_whatever_is_accepted(reader):
    for accept in ("text/html", "image/png", "application/xml;q=0.5"):
        answer = reader.get("tasks", accept=accept)
        assert (answer.status_code, answer["Content-Type"]) == (200, "application/json")


@pytest.mark.parametrize("name", ["abcdefgh", "A.b-c_9" * 4])
def test_a_well_formed_request_id_is_kept(reader, name):
    answer = reader.get("tasks/4711", x_request_id=name)
    assert answer["X-Request-ID"] == answer.json()["request_id"] == name


@pytest.mark.parametrize("name", ["short", "x" * 65, "with space", "a\tb\tc\td\te"])
def test_any_other_request_id_is_replaced(reader, name):
    answer = reader.get("tasks/4711", x_request_id=name)
    assert answer["X-Request-ID"] == answer.json()["request_id"] != name
    assert len(answer["X-Request-ID"]) == 32


def test_a_trailing_slash_means_the_same(reader):
    task = make_task()
    for place in ("tasks", f"tasks/{task.pk}", "healthz", "version"):
        assert reader.get(place).content == reader.get(f"{place}/").content


def test_the_index_links_to_what_there_is(reader):
    answer = reader.get("/api/v1/")
    assert answer.json()["tasks"] == "http://testserver/api/v1/tasks"
    for link in answer.json().values():
        assert reader.get(link.removeprefix("http://testserver")).status_code == 200


def test_a_host_that_is_not_ours_is_refused(db):
    answer = Api().get("tasks", host="evil.example")
    assert answer.status_code == 400


def test_a_person_who_is_logged_in_may_browse(console):
    answer = console.get("/api/v1/tasks", headers={"accept": "text/html"})
    assert (answer.status_code, answer["Content-Type"]) == (200, "text/html; charset=utf-8")
    assert 'name="exec_type"' in answer.text, "what can be filtered by"
    assert console.get(f"/api/v1/tasks/{make_task().pk}", headers={"accept": "text/html"})


def test_a_change_from_a_browser_needs_the_csrf_token(console):
    console.handler.enforce_csrf_checks = True
    body = json.dumps({"name": "t", "target_url": "http://svc/", "every": 60})
    answer = console.post("/api/v1/tasks", body, "application/json")
    assert (answer.status_code, answer.json()["code"]) == (403, "FORBIDDEN")


def test_a_key_needs_no_csrf_token():
    made = make_api("write")
    made.client.handler.enforce_csrf_checks = True
    body = {"name": "t", "target_url": "http://svc/", "every": 60}
    assert made.post("tasks", body).status_code == 201


def test_a_body_in_chunks_is_refused_rather_than_taken_for_none(api):
    task = make_task()
    answer = api.client.generic(
        "PATCH",
        f"/api/v1/tasks/{task.pk}",
        b"",
        "application/json",
        headers={"transfer-encoding": "chunked"},
        CONTENT_LENGTH="",
    )
    assert (answer.status_code, answer.json()["code"]) == (400, "INVALID_ARGUMENT")
    assert "Content-Length" in answer.json()["message"]


def test_the_message_tells_the_first_of_what_is_wrong(api):
    told = api.post("tasks", {"name": "", "every": "soon", "target_url": "http://svc/"}).json()
    assert told["message"].startswith("name: ")
    assert told["message"].endswith("(and 1 more)")


@pytest.mark.parametrize(
    "path",
    ["runs?status=", "runs?status=&status=SUCCESS", "runs?page=&page_size=", "callbacks?status=",
     "runs?task_id=&outcome=&trigger=&from=&to=&before_id=",
     "tasks?status=&name=&exec_type=&tag=&search=&ordering=&page=&page_size="],
)  # fmt: skip
def test_an_empty_parameter_of_a_list_is_as_good_as_none(api, path):
    make_run(status="SUCCESS")
    assert api.get(path).json()["count"] == (0 if path.startswith("callbacks") else 1)


@pytest.mark.parametrize(
    ("part", "said"),
    [({"headers": {"A": 1}}, "A: Not a valid string."), ({"tags": ["a", 1]}, "1: Not a valid"),
     ({"secret_paths": [[]]}, "0: Not a valid string.")],
)  # fmt: skip
def test_a_bad_part_of_a_list_or_an_object_is_told_under_its_name(api, part, said):
    answer = api.post("tasks", {"name": "a", "every": "5m", "target_url": "http://x/"} | part)
    (name,) = part
    assert list(answer.json()["fields"]) == [name]
    assert answer.json()["fields"][name][0].startswith(said)


@pytest.mark.parametrize("path", ["runs?status=SUCCESS", "tasks?colour=1", "callbacks?page=x"])
def test_a_method_that_is_not_known_is_told_before_what_is_wrong_with_the_rest(api, path):
    answer = api.delete(path)
    assert (answer.status_code, answer.json()["code"]) == (405, "METHOD_NOT_ALLOWED")
    assert "GET" in answer["Allow"]
