import json

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from cronjob.api import paging
from runs import trigger
from runs.models import Pause, TaskRun
from runs.states import FINAL, Status
from tests import marks
from tests.factories import MINUTE, NOON, SECOND, make_api, make_run, make_task

pytestmark = marks.both

# Every field of a run that clients rely on.
FIELDS = {
    "id", "uuid", "task_id", "task_name", "trigger", "status", "reason", "attempt", "max_attempts",
    "scheduled_time", "start_time", "end_time", "lateness_ms", "duration_ms", "request_method",
    "request_url", "request_headers", "request_body", "response_code", "response_headers",
    "response_body", "response_truncated", "error_kind", "error_message", "next_retry_time",
    "callback_deadline", "progress", "trace_id", "owner", "timings", "attempts", "missed",
    "created_at", "updated_at",
}  # fmt: skip
LEFT_OUT = {
    "request_headers", "request_body", "response_headers", "response_body", "timings", "attempts",
}  # fmt: skip


@pytest.fixture
def operator(db):
    return make_api("operate")


def ids(answer):
    assert answer.status_code == 200, answer.json()
    return [row["id"] for row in answer.json()["results"]]


def test_a_run_tells_everything_that_was_sent_and_received(reader):
    run = make_run(
        status=Status.SUCCESS, attempt=2, max_attempts=4, start_time=NOON, end_time=NOON + SECOND,
        lateness_ms=12, request_method="POST", request_url="http://svc/", request_body="{}",
        request_headers={"A": "b"}, response_code=200, response_headers={"C": "d"},
        response_body="fine", timings={"connect_ms": 1, "first_byte_ms": 80, "total_ms": 85},
        attempts=[{"attempt": 1, "response_code": 503}], trace_id="t" * 32, owner="host:1:boot",
    )  # fmt: skip
    told = reader.get(f"runs/{run.pk}").json()
    assert set(told) >= FIELDS
    assert (told["duration_ms"], told["lateness_ms"], told["missed"]) == (1000, 12, None)
    assert (told["task_id"], told["task_name"]) == (run.task.pk, run.task.name)
    assert (told["start_time"], told["request_headers"]) == ("2026-01-01T12:00:00Z", {"A": "b"})
    assert told["timings"] == {"connect_ms": 1, "first_byte_ms": 80, "total_ms": 85}
    assert told["attempts"] == [{"attempt": 1, "response_code": 503}]


def test_no_answer_holds_a_callback_token_or_the_template(reader):
    run = make_run(status=Status.RUNNING, template={"target_url": "hush", "asynchronous": True})
    answer = reader.get(f"runs/{run.pk}")
    assert "hush" not in answer.text
    assert not {"template", "callback_token", "override_body", "request_key"} & set(answer.json())


def test_a_missed_entry_tells_the_span_it_stands_for(reader):
    run = make_run(
        status=Status.MISSED, reason="misfire", missed_from=NOON, missed_to=NOON + MINUTE,
        missed_count=2,
    )  # fmt: skip
    told = reader.get(f"runs/{run.pk}").json()["missed"]
    assert told == {"from": "2026-01-01T12:00:00Z", "to": "2026-01-01T12:01:00Z", "count": 2}


@pytest.mark.parametrize("path", ["runs/4711", "runs/4711/callbacks", "tasks/4711/runs"])
def test_what_is_not_there_is_not_found(reader, path):
    answer = reader.get(path)
    assert (answer.status_code, answer.json()["code"]) == (404, "NOT_FOUND")


@pytest.mark.parametrize("path", ["runs/x", "runs/0", "runs/x/callbacks", "tasks/x/runs"])
def test_an_id_that_is_none_is_said_to_be_none(reader, path):
    answer = reader.get(path)
    assert (answer.status_code, answer.json()["code"]) == (400, "INVALID_ID")


def test_a_page_leaves_out_bodies_headers_timings_and_attempts(reader):
    make_run(status=Status.SUCCESS, request_body="long", response_body="long")
    (row,) = reader.get("runs").json()["results"]
    assert set(row) >= FIELDS - LEFT_OUT
    assert not LEFT_OUT & set(row)


def test_a_page_reads_no_bodies_and_costs_the_same_whatever_its_length(reader):
    def cost():
        with CaptureQueriesContext(connection) as queries:
            assert reader.get("runs?page_size=200").status_code == 200
        return [query["sql"] for query in queries]

    make_run()
    cost()  # the first use of a key is written down
    few = cost()
    for _ in range(10):
        make_run()
    many = cost()
    assert len(many) == len(few)
    for column in LEFT_OUT | {"template", "body_template", "headers_json"}:
        assert not any(f'"{column}"' in sql for sql in many), column


def test_runs_are_listed_newest_first_also_those_of_a_deleted_task(reader):
    task, other = make_task(deleted=True), make_task()
    first, second = make_run(task=task), make_run(task=task)
    third = make_run(task=other)
    assert ids(reader.get("runs")) == [third.pk, second.pk, first.pk]
    assert ids(reader.get(f"tasks/{task.pk}/runs")) == [second.pk, first.pk]
    assert reader.get(f"runs/{first.pk}").json()["task_name"] == task.name


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("", "abcdef"),
        ("status=SUCCESS", "a"),
        ("status=SUCCESS&status=FAILED", "ab"),
        ("outcome=success", "ac"),
        ("outcome=failure", "bd"),
        ("outcome=open", "e"),
        ("outcome=failure&status=TIMEOUT", "d"),
        ("trigger=MANUAL", "f"),
        ("from=2026-01-01T12:00:03Z", "def"),
        ("from=2026-01-01T13:00:03%2B01:00", "def"),
        ("from=2026-01-01T13:00:03+01:00", "def"),
        ("to=2026-01-01T12:00:01Z", "ab"),
        ("from=2026-01-01T12:00:01Z&to=2026-01-01T12:00:03Z", "bcd"),
        ("from=2026-01-01T12:00:01Z&status=FAILED", "b"),
    ],
)
def test_runs_are_filtered(reader, query, found):
    task = make_task()
    states = {
        "a": Status.SUCCESS, "b": Status.FAILED, "c": Status.CALLBACK_SUCCESS,
        "d": Status.TIMEOUT, "e": Status.RUNNING, "f": Status.CANCELED,
    }  # fmt: skip
    runs = {
        name: make_run(
            task=task, status=status, scheduled_time=NOON + number * SECOND,
            trigger="MANUAL" if name == "f" else "SCHEDULE",
        ).pk
        for number, (name, status) in enumerate(states.items())
    }  # fmt: skip
    wanted = sorted((runs[name] for name in found), reverse=True)
    assert ids(reader.get(f"runs?{query}")) == wanted
    assert ids(reader.get(f"tasks/{task.pk}/runs?{query}")) == wanted
    assert ids(reader.get(f"runs?task_id={task.pk}&{query}")) == wanted
    assert ids(reader.get(f"runs?task_id={task.pk + 1}&{query}")) == []


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ("status=DONE", "status"),
        ("outcome=good", "outcome"),
        ("trigger=CRON", "trigger"),
        ("from=yesterday", "from"),
        ("to=2026-01-01T12:00:00", "to"),
        ("task_id=x", "task_id"),
        ("before_id=-1", "before_id"),
        ("order=id", "order"),
        ("page=0", "page"),
    ],
)
def test_a_bad_filter_is_refused_by_name(reader, query, field):
    answer = reader.get(f"runs?{query}")
    assert (answer.status_code, answer.json()["code"]) == (400, "INVALID_ARGUMENT")
    assert list(answer.json()["fields"]) == [field]


def test_the_runs_of_a_task_take_no_other_task(reader):
    answer = reader.get(f"tasks/{make_task().pk}/runs?task_id=1")
    assert list(answer.json()["fields"]) == ["task_id"]


@pytest.mark.parametrize("query", ["", "from=2026-01-01T00:00:00Z&"])
def test_far_down_a_list_goes_on_from_the_last_row_seen(reader, monkeypatch, query):
    monkeypatch.setattr(paging, "COUNT_MAX", 4)
    runs = [make_run(scheduled_time=NOON + number // 2 * SECOND).pk for number in range(9)]
    seen, path, pages = [], f"runs?{query}page_size=2", 0
    while path:
        answer = reader.get(path.removeprefix("http://testserver"))
        seen += ids(answer)
        path, pages = answer.json()["next"], pages + 1
    assert seen == runs[::-1]
    assert pages == 5
    beyond = reader.get(f"runs?{query}page_size=2&page=3")
    assert "before_id" in beyond.json()["fields"]["page"][0]


@pytest.mark.parametrize(
    "status", [Status.SCHEDULED, Status.RUNNING, Status.RETRYING, Status.CALLBACK_PENDING]
)
def test_cancel_ends_a_run_from_any_state_that_is_not_final(operator, status):
    run = make_run(status=status)
    answer = operator.post(f"runs/{run.pk}/cancel", {"reason": "not today"})
    assert (answer.status_code, answer.json()) == (200, {"run_id": run.pk, "status": "CANCELED"})
    run.refresh_from_db()
    assert (run.status, run.reason) == (Status.CANCELED, "not today")


@pytest.mark.parametrize("status", FINAL)
def test_a_run_that_is_over_cannot_be_canceled(operator, status):
    run = make_run(status=status)
    answer = operator.post(f"runs/{run.pk}/cancel")
    assert (answer.status_code, answer.json()["code"]) == (409, "INVALID_STATE")
    assert status in answer.json()["message"]


def test_a_cancel_without_a_reason_says_who_it_was(db):
    run = make_run()
    make_api("operate", name="night shift").post(f"runs/{run.pk}/cancel")
    run.refresh_from_db()
    assert run.reason == "by key night shift"


def test_a_replay_is_a_new_run_for_the_same_time(operator):
    old = make_run(status=Status.FAILED)
    answer = operator.post(f"runs/{old.pk}/replay", {"override_body": "again"})
    assert answer.status_code == 202
    run = TaskRun.objects.get(pk=answer.json()["run_id"])
    assert (run.trigger, run.status, run.task) == ("REPLAY", Status.SCHEDULED, old.task)
    assert (run.scheduled_time, run.override_body) == (old.scheduled_time, "again")


def test_a_replay_of_a_missed_entry_is_for_the_last_of_its_moments(operator):
    old = make_run(
        status=Status.MISSED, moment=NOON + MINUTE, missed_from=NOON, missed_to=NOON + MINUTE,
        missed_count=2,
    )  # fmt: skip
    run = operator.post(f"runs/{old.pk}/replay").json()["run_id"]
    assert TaskRun.objects.get(pk=run).scheduled_time == NOON + MINUTE


def test_a_run_that_is_not_over_cannot_be_replayed(operator):
    answer = operator.post(f"runs/{make_run().pk}/replay")
    assert (answer.status_code, answer.json()["code"]) == (409, "INVALID_STATE")


def test_the_body_of_a_replay_follows_the_rules_of_a_template(operator):
    old = make_run(status=Status.FAILED)
    answer = operator.post(f"runs/{old.pk}/replay", {"override_body": "{{ nonsense }}"})
    assert list(answer.json()["fields"]) == ["override_body"]


@pytest.mark.parametrize("policy", ["SKIP", "QUEUE", "PARALLEL"])
@pytest.mark.parametrize("verb", ["trigger", "replay"])
def test_at_the_limit_the_policy_decides(operator, policy, verb):
    task = make_task(concurrency_policy=policy)
    busy = make_run(task=task, status=Status.RUNNING, slot=1)
    over = make_run(task=task, status=Status.FAILED)
    path = f"tasks/{task.pk}/trigger" if verb == "trigger" else f"runs/{over.pk}/replay"
    answer = operator.post(path)
    refused = policy == "SKIP"
    assert answer.status_code == (409 if refused else 202)
    assert TaskRun.objects.exclude(pk__in=(busy.pk, over.pk)).count() == (0 if refused else 1)
    if refused:
        assert answer.json()["code"] == "CONCURRENCY_LIMIT"


def test_the_same_idempotency_key_means_the_same_run(operator):
    task = make_task()
    first = operator.post(f"tasks/{task.pk}/trigger", {"override_body": "x"}, idempotency_key="k")
    again = operator.post(f"tasks/{task.pk}/trigger", {"override_body": "x"}, idempotency_key="k")
    assert (again.status_code, again.json()) == (202, first.json())
    other = operator.post(f"tasks/{make_task().pk}/trigger", idempotency_key="k")
    assert other.json() != first.json()  # a key is the task's
    assert TaskRun.objects.filter(task=task).count() == 1


@pytest.mark.parametrize("body", [{"override_body": "y"}, {}, {"force_async": True}])
def test_the_same_key_with_another_body_is_a_conflict(operator, body):
    task = make_task()
    operator.post(f"tasks/{task.pk}/trigger", {"override_body": "x"}, idempotency_key="k")
    answer = operator.post(f"tasks/{task.pk}/trigger", body, idempotency_key="k")
    assert (answer.status_code, answer.json()["code"]) == (409, "IDEMPOTENCY_CONFLICT")
    assert TaskRun.objects.count() == 1


def test_a_replay_takes_a_key_too_and_a_trigger_is_another_request(operator):
    old = make_run(status=Status.FAILED)
    first = operator.post(f"runs/{old.pk}/replay", idempotency_key="k")
    assert operator.post(f"runs/{old.pk}/replay", idempotency_key="k").json() == first.json()
    answer = operator.post(f"tasks/{old.task.pk}/trigger", idempotency_key="k")
    assert answer.json()["code"] == "IDEMPOTENCY_CONFLICT"


def test_a_key_is_free_again_after_a_day(db):
    task = make_task()
    first = trigger.trigger(task.pk, now=NOON, key="k")
    assert trigger.trigger(task.pk, now=NOON + 24 * 60 * MINUTE, key="k").pk == first.pk
    later = trigger.trigger(task.pk, now=NOON + 24 * 60 * MINUTE + SECOND, key="k")
    assert later.pk != first.pk


def test_a_key_is_not_spent_on_a_run_that_was_not_made(operator):
    task = make_task(concurrency_policy="SKIP")
    busy = make_run(task=task, status=Status.RUNNING, slot=1)
    assert operator.post(f"tasks/{task.pk}/trigger", idempotency_key="k").status_code == 409
    trigger.cancel(busy, reason="", now=NOON)
    assert operator.post(f"tasks/{task.pk}/trigger", idempotency_key="k").status_code == 202


@pytest.mark.parametrize("key", ["", "x" * 256, "ü", "a\tb"])
def test_a_key_that_is_none_is_refused(operator, key):
    answer = operator.post(f"tasks/{make_task().pk}/trigger", idempotency_key=key)
    assert (answer.status_code, list(answer.json()["fields"])) == (400, ["Idempotency-Key"])


def test_a_pause_holds_everything_or_a_tag_until_it_is_resumed(operator):
    assert operator.get("pause").json() == {"pauses": []}
    told = operator.post("pause", {"reason": "deploy", "until": "2999-01-01T00:00:00Z"})
    assert told.status_code == 200
    assert operator.post("pause", {"tag": "nightly"}).json()["tag"] == "nightly"
    held = operator.get("pause").json()["pauses"]
    assert [(p["tag"], p["reason"], p["until"]) for p in held] == [
        ("", "deploy", "2999-01-01T00:00:00Z"), ("nightly", "", None),
    ]  # fmt: skip
    assert operator.post("resume", {"tag": "nightly"}).json() == {"resumed": True}
    assert [pause.tag for pause in Pause.objects.all()] == [""]
    assert operator.post("resume", {"tag": ""}).json() == {"resumed": True}
    operator.post("pause")
    assert operator.post("resume").json() == {"resumed": True}
    assert operator.post("resume").json() == {"resumed": False}


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"until": "2020-01-01T00:00:00Z"}, "until"),
        ({"until": "soon"}, "until"),
        ({"tags": ["x"]}, "tags"),
        ({"reason": 3}, "reason"),
    ],
)
def test_a_bad_pause_is_refused(operator, body, field):
    answer = operator.post("pause", body)
    assert (answer.status_code, list(answer.json()["fields"])) == (400, [field])
    assert not Pause.objects.exists()


def test_a_body_that_cannot_be_read_changes_nothing(operator):
    run = make_run()
    answer = operator.post(f"runs/{run.pk}/cancel", "{")
    assert (answer.status_code, answer.json()["code"]) == (400, "INVALID_JSON")
    assert json.loads(json.dumps(answer.json()))["request_id"]
    run.refresh_from_db()
    assert run.status == Status.SCHEDULED
