"""The demo: tasks that call this machine, and the endpoint that answers them."""

import json

import pytest
from django.test import Client, RequestFactory
from django.urls import path

from cronjob import demo, urls
from cronjob.lib.masking import MASK
from runs import standing
from tasks.models import Task
from tests import marks
from tests.factories import MINUTE, NOON

pytestmark = marks.both

urlpatterns = [*urls.urlpatterns, path("demo/echo", demo.echo)]  # as CRONJOB_DEMO=1 routes it

ORIGIN = "http://127.0.0.1:8000"
ELSEWHERE = "http://127.0.0.1:9000"


def echo(method="POST", body=b"", *, address="127.0.0.1", **headers):
    request = RequestFactory().generic(
        method, "/demo/echo?token=t", body, REMOTE_ADDR=address, headers=headers
    )
    return demo.echo(request)


def told(answer):
    assert answer.status_code == 200
    return json.loads(answer.content)


@pytest.mark.parametrize("method", ["GET", "POST", "PUT", "PATCH", "DELETE"])
def test_the_echo_answers_with_what_it_was_sent(method):
    found = told(echo(method, b'{"run": 1}', x_team="billing"))
    assert (found["method"], found["body"]) == (method, '{"run": 1}')
    assert found["headers"]["X-Team"] == "billing"
    assert found["headers"]["Content-Length"] == "10"


def test_a_body_that_is_no_text_is_echoed_as_far_as_it_is():
    assert told(echo(body=b"a\xffb"))["body"] == "a\N{REPLACEMENT CHARACTER}b"


@pytest.mark.parametrize(
    "name",
    [
        "Authorization",
        "Proxy-Authorization",
        "Cookie",
        "X-Auth-Token",
        "X-Api-Key",
        "X-Cronjob-Callback-Token",
        "X-Cronjob-Callback-Url",
    ],
)
def test_tokens_are_not_echoed(name):
    answer = echo(**{name: "hunter2", "X-Team": "billing"})
    found = told(answer)["headers"]
    assert (found[name], found["X-Team"]) == (MASK, "billing")
    assert b"hunter2" not in answer.content


def test_a_body_of_64_kib_is_echoed_and_one_byte_more_is_refused():
    assert len(told(echo(body=b"x" * 65536))["body"]) == 65536
    answer = echo(body=b"x" * 65537)
    assert answer.status_code == 413
    assert json.loads(answer.content)["code"] == "PAYLOAD_TOO_LARGE"


@pytest.mark.parametrize("address", ["10.0.0.9", "203.0.113.9", "2001:db8::1", ""])
def test_another_machine_gets_no_echo(address):
    answer = echo(address=address, body=b"hello")
    assert (answer.status_code, json.loads(answer.content)["code"]) == (403, "FORBIDDEN")
    assert b"hello" not in answer.content


@pytest.mark.parametrize("address", ["127.0.0.1", "::1"])
def test_this_machine_gets_its_echo(address):
    assert told(echo(address=address))


def test_whoever_comes_through_a_proxy_on_this_machine_gets_no_echo(settings):
    settings.ROOT_URLCONF = __name__
    answer = Client().post("/demo/echo", headers={"x-forwarded-for": "203.0.113.9"})
    assert answer.status_code == 403


def test_the_echo_needs_neither_a_key_nor_a_csrf_token(settings):
    settings.ROOT_URLCONF = __name__
    client = Client(enforce_csrf_checks=True)
    answer = client.post("/demo/echo", "hello", content_type="text/plain")
    assert (answer.status_code, answer.json()["body"]) == (200, "hello")


def test_without_the_demo_there_is_no_echo(settings):
    assert settings.CRONJOB_DEMO is False
    assert Client().post("/demo/echo").status_code == 404


def demos():
    return {task.name: task for task in Task.objects.live()}


def test_three_tasks_are_made_that_call_the_echo():
    assert demo.present() is False
    demo.install(ORIGIN, make=True, now=NOON)
    assert demo.present() is True
    found = demos().values()
    assert {task.target_url for task in found} == {f"{ORIGIN}/demo/echo"}
    assert {task.schedule_kind for task in found} == {"EVERY", "CRON", "MANUAL"}
    assert {(task.status, *task.tags) for task in found} == {("ENABLED", "demo")}
    for task in found:
        task.full_clean()  # as if a person had made them


def test_a_second_start_changes_nothing():
    demo.install(ORIGIN, make=True, now=NOON)
    before = list(Task.objects.order_by("id").values())
    demo.install(ORIGIN, make=True, now=NOON + MINUTE)
    assert list(Task.objects.order_by("id").values()) == before


def test_a_start_elsewhere_points_the_tasks_there():
    demo.install(ORIGIN, make=True, now=NOON)
    before = demos()
    demo.install(ELSEWHERE, make=True, now=NOON + MINUTE)
    found = demos()
    assert {task.target_url for task in found.values()} == {f"{ELSEWHERE}/demo/echo"}
    assert {name: task.pk for name, task in found.items()} == {
        name: task.pk for name, task in before.items()
    }
    assert {(task.version, task.updated_at) for task in found.values()} == {(2, NOON + MINUTE)}
    assert {task.anchor for task in found.values()} == {task.anchor for task in before.values()}


@pytest.mark.parametrize("origin", [ORIGIN, ELSEWHERE])
def test_what_a_person_changed_is_kept(origin):
    demo.install(ORIGIN, make=True, now=NOON)
    name = "demo: every ten seconds"
    changed = {
        "every_seconds": 3600,
        "description": "mine",
        "http_method": "POST",
        "headers": {"X-Team": "billing"},
        "tags": ["mine"],
    }
    task = demos()[name]
    for field, value in changed.items():
        setattr(task, field, value)
    standing.edit(task, now=NOON)
    standing.disable(task, reason="enough", now=NOON)
    demo.install(origin, make=True, now=NOON + MINUTE)
    kept = demos()[name]
    assert {field: getattr(kept, field) for field in changed} == changed
    assert (kept.status, kept.disabled_reason) == ("DISABLED", "enough")


def test_a_task_that_a_person_pointed_at_a_service_stays_pointed_at_it():
    demo.install(ORIGIN, make=True, now=NOON)
    task = demos()["demo: when you say so"]
    task.target_url = "https://svc.example.com/hook"
    standing.edit(task, now=NOON)
    demo.install(ELSEWHERE, make=True, now=NOON + MINUTE)
    assert demos()[task.name].target_url == "https://svc.example.com/hook"


def test_a_demo_that_was_deleted_does_not_come_back_by_itself():
    demo.install(ORIGIN, make=True, now=NOON)
    standing.delete(demos()["demo: when you say so"], now=NOON)
    demo.install(ELSEWHERE, make=False, now=NOON + MINUTE)
    assert len(demos()) == 2
    assert {task.target_url for task in demos().values()} == {f"{ELSEWHERE}/demo/echo"}


def test_where_every_demo_is_deleted_there_is_none():
    demo.install(ORIGIN, make=True, now=NOON)
    for task in demos().values():
        standing.delete(task, now=NOON)
    assert demo.present() is False


def test_other_tasks_are_left_alone():
    task = Task(
        name="mine", schedule_kind="MANUAL", target_url=f"{ORIGIN}/demo/echo",
    )  # fmt: skip
    standing.create(task, now=NOON)
    assert demo.present() is False
    demo.install(ELSEWHERE, make=True, now=NOON + MINUTE)
    assert demos()["mine"].target_url == f"{ORIGIN}/demo/echo"
