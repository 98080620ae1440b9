"""API.md on runs, callbacks and the system, row by row, by whoever knows only the document."""

import re

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from cronjob.lib import clock
from runs.materialise import materialise
from tests import marks
from tests.api.contract import TIME, link, refused, said
from tests.callbacks.reports import called, given, make_async, pending, post
from tests.factories import (
    MINUTE,
    NOON,
    SECOND,
    Api,
    copy,
    make_api,
    make_run,
    make_task,
)
from tests.runs.engine import claimed, failed, fresh, outcome, settled

pytestmark = marks.both

FIELDS = {
    "id", "uuid", "task_id", "task_name", "trigger", "status", "reason", "attempt", "max_attempts",
    "scheduled_time", "start_time", "end_time", "lateness_ms", "duration_ms",
    "request_method", "request_url", "request_headers", "request_body",
    "response_code", "response_headers", "response_body", "response_truncated",
    "error_kind", "error_message", "next_retry_time", "callback_deadline", "progress", "trace_id",
    "owner", "timings", "attempts", "missed", "created_at", "updated_at",
}  # fmt: skip
LEFT_OUT = {
    "request_headers", "request_body", "response_headers", "response_body", "timings", "attempts",
}  # fmt: skip
CALLBACK = {"id", "run_id", "attempt", "received_at", "status", "reason", "headers", "body"}
OPEN = ["SCHEDULED", "RUNNING", "RETRYING", "CALLBACK_PENDING"]
OVER = ["SUCCESS", "FAILED", "TIMEOUT", "CALLBACK_SUCCESS", "FAILED_TIMEOUT", "CANCELED"]
OVER += ["SKIPPED", "MISSED"]
REPORT = {"status": "SUCCESS", "data": {"rows": 3}, "error_message": ""}


@pytest.fixture
def operator(db):
    return make_api("operate")


def ids(answer):
    return [row["id"] for row in said(answer)["results"]]


def told(api, run):
    return said(api.get(f"runs/{run if isinstance(run, int) else run.pk}"))


def retried(**fields):
    """A run whose first attempt failed and whose second is under way, and both tokens."""
    run, first = called(make_async(retry_policy=POLICY, **fields))
    assert settled(run, failed, now=NOON)
    (again,) = claimed(NOON + MINUTE)
    return again, first, given(again)


POLICY = {
    "max_retries": 3, "initial_delay": 5, "strategy": "fixed", "max_delay": 60,
    "jitter": False, "retry_on_callback_failure": False,
}  # fmt: skip


# --- the shape of a run -------------------------------------------------------------------------


@pytest.mark.parametrize("status", OPEN + OVER)
def test_a_run_has_every_field_of_the_document_in_every_state(reader, status):
    run = told(reader, make_run(status=status))
    assert set(run) >= FIELDS
    assert (run["status"], run["reason"], run["error_kind"]) == (status, "", "")
    assert TIME.fullmatch(run["scheduled_time"])
    assert TIME.fullmatch(run["created_at"])
    assert (run["response_code"], run["response_truncated"]) == (None, False)
    assert (run["request_headers"], run["attempts"], run["progress"]) == ({}, [], None)


def test_a_run_tells_how_its_call_went(reader):
    make_run(task=make_task(http_method="POST"), moment=NOON - SECOND)
    (run,) = claimed()
    parts = {"url": "http://svc/a", "method": "POST", "code": 200}
    assert settled(run, outcome, now=NOON + SECOND, **parts)
    run = told(reader, run)
    assert (run["status"], run["attempt"], run["response_code"]) == ("SUCCESS", 1, 200)
    assert (run["request_method"], run["request_url"]) == ("POST", "http://svc/a")
    assert run["lateness_ms"] == 1000
    assert (run["start_time"], run["end_time"]) == ("2026-01-01T12:00:00Z", "2026-01-01T12:00:01Z")


def test_the_earlier_attempts_of_a_run_are_told_and_its_message_is_cut(reader):
    run, _, _ = retried()
    run = told(reader, run)
    assert (run["attempt"], run["max_attempts"], run["status"]) == (2, 4, "RUNNING")
    (attempt,) = run["attempts"]
    assert set(attempt) >= {
        "attempt", "start_time", "end_time", "response_code", "error_kind", "error_message",
    }  # fmt: skip
    assert (attempt["attempt"], attempt["response_code"], attempt["error_kind"]) == (1, 503, "http")
    waits, token = pending()
    post(token, {"status": "FAILED", "error_message": "no " * 1000})
    message = told(reader, waits)["error_message"]
    assert len(message) <= 1024
    assert message.endswith("…")


def test_a_missed_entry_tells_the_span_and_the_count(api):
    at = "2020-01-01T00:00:00Z"
    job = {"name": "late", "http": {"url": "http://svc/"}, "schedule": {"kind": "once"}}
    job["schedule"]["run_at"] = at
    said(api.post("/jobs", job), 201)
    (run,) = said(api.get("runs?status=MISSED"))["results"]
    assert told(api, run["id"])["missed"] == {"from": at, "to": at, "count": 1}
    assert told(api, make_run(status="SUCCESS"))["missed"] is None


# --- the table of runs --------------------------------------------------------------------------


def test_get_runs_lists_all_tasks_newest_first_without_what_is_large(reader):
    runs = [make_run(moment=NOON + n * SECOND) for n in range(3)]
    page = said(reader.get("runs"))
    assert ids(reader.get("runs")) == [run.pk for run in runs[::-1]]
    assert all(set(row) >= FIELDS - LEFT_OUT for row in page["results"])
    assert not any(LEFT_OUT & set(row) for row in page["results"])
    assert ids(reader.get(f"runs?task_id={runs[0].task_id}")) == [runs[0].pk]


@pytest.mark.parametrize("path", ["runs?", "tasks/{}/runs?"])
def test_get_runs_filters_by_status_outcome_trigger_and_time(reader, path):
    task = make_task()
    path = path.format(task.pk)
    made = {
        status: make_run(task=task, status=status, moment=NOON + n * MINUTE).pk
        for n, status in enumerate(OPEN + OVER)
    }
    replay = make_run(
        task=task, status="SKIPPED", trigger="REPLAY", scheduled_time=NOON + 60 * MINUTE
    ).pk

    def of(query):
        found = ids(reader.get(path + query))
        return {status for status, pk in made.items() if pk in found}

    assert of("status=SUCCESS") == {"SUCCESS"}
    assert of("status=SUCCESS&status=TIMEOUT") == {"SUCCESS", "TIMEOUT"}
    assert of("outcome=open") == set(OPEN)
    assert of("outcome=success") == {"SUCCESS", "CALLBACK_SUCCESS"}
    assert of("outcome=failure") >= {"FAILED", "TIMEOUT", "FAILED_TIMEOUT"}
    assert ids(reader.get(path + "trigger=REPLAY")) == [replay]
    assert of("from=2026-01-01T12:00:30Z&to=2026-01-01T12:02:30Z") == {"RUNNING", "RETRYING"}
    page = said(reader.get(path + "page=2&page_size=5"))
    assert (page["count"], len(page["results"])) == (13, 5)
    for odd in ("status=LOST", "outcome=good", "trigger=HAND", "from=noon", "page=0", "colour=red"):
        refused(reader.get(path + odd), 400, "INVALID_ARGUMENT", odd.split("=")[0])


def test_the_count_of_runs_is_exact_up_to_ten_thousand_and_deeper_pages_go_by_id(reader):
    run = make_run(status="SUCCESS", trigger="MANUAL")
    copy(run, 9_999)
    page = said(reader.get("runs?page_size=1"))
    assert (page["count"], page.get("count_capped", False)) == (10_000, False)
    copy(run, 150)
    page = said(reader.get("runs?page_size=200&page=50"))
    assert (page["count"], page["count_capped"]) == (10_000, True)
    last = page["results"][-1]["id"]
    deeper = ids(reader.get(f"runs?page_size=200&before_id={last}"))
    assert len(deeper) == 150
    assert ids(reader.get(link(page["next"]))) == deeper == sorted(deeper, reverse=True)
    assert deeper[0] < last


def test_the_last_page_tells_the_count_without_a_query_for_it(reader):
    copy(make_run(status="SUCCESS", trigger="MANUAL"), 4)
    for asked, shown, counts in (
        ("", 5, 0),
        ("page_size=3&page=2", 2, 0),
        ("page_size=3", 3, 1),
        ("page_size=3&page=3", 0, 1),
    ):
        with CaptureQueriesContext(connection) as seen:
            page = said(reader.get(f"runs?{asked}"))
        assert (page["count"], len(page["results"])) == (5, shown), asked
        assert sum("COUNT(*)" in query["sql"] for query in seen.captured_queries) == counts, asked
    assert said(reader.get("runs?status=FAILED"))["count"] == 0


def test_get_a_run(reader):
    run = make_run(status="FAILED")
    assert told(reader, run)["uuid"] == str(run.uuid)
    refused(reader.get("runs/4711"), 404, "NOT_FOUND")
    refused(reader.get("runs/abc"), 400, "INVALID_ID")


def test_post_cancel_ends_a_run_from_any_state_that_is_not_final(operator):
    for status in OPEN:
        run = make_run(status=status)
        answer = operator.post(f"runs/{run.pk}/cancel", {"reason": "by hand"})
        assert said(answer) == {"run_id": run.pk, "status": "CANCELED"}
        after = told(operator, run)
        assert (after["status"], after["reason"]) == ("CANCELED", "by hand")
    for status in OVER:
        answer = operator.post(f"runs/{make_run(status=status).pk}/cancel")
        refused(answer, 409, "INVALID_STATE")
        assert status in answer.text


def test_post_replay_makes_a_new_run_for_the_same_time(operator):
    late = make_task(next_run_at=NOON + MINUTE, misfire_policy="SKIP")
    materialise(NOON + 9 * MINUTE)
    (missed,) = said(operator.get(f"tasks/{late.pk}/runs"))["results"]
    known = [make_run(status=status).pk for status in OVER if status != "MISSED"]
    for run in [*known, missed["id"]]:
        new = said(operator.post(f"runs/{run}/replay", {"override_body": "a"}), 202)["run_id"]
        old, replay = told(operator, run), told(operator, new)
        assert (replay["task_id"], replay["trigger"]) == (old["task_id"], "REPLAY")
        assert replay["scheduled_time"] == (old["missed"] or {"to": old["scheduled_time"]})["to"]
    assert (missed["missed"]["count"], missed["missed"]["to"]) == (9, "2026-01-01T12:09:00Z")
    for status in OPEN:
        refused(operator.post(f"runs/{make_run(status=status).pk}/replay"), 409, "INVALID_STATE")


def test_get_callbacks_tells_what_came_in(reader):
    run, token = pending()
    post(token, REPORT)
    post(token, {"status": "FAILED", "error_message": "late"})
    other, another = pending()
    post(another, REPORT)
    rows = said(reader.get(f"runs/{run.pk}/callbacks"))["results"]
    assert all(set(row) >= CALLBACK for row in rows)
    assert {row["status"] for row in rows} == {"RECEIVED", "IGNORED"}
    assert {(row["run_id"], row["attempt"]) for row in rows} == {(run.pk, 1)}
    mine = {row["id"] for row in rows}
    assert set(ids(reader.get(f"callbacks?run_id={run.pk}"))) == mine
    assert set(ids(reader.get(f"callbacks?task_id={run.task_id}"))) == mine
    assert len(ids(reader.get("callbacks?status=RECEIVED"))) == 2
    assert len(ids(reader.get("callbacks?from=2020-01-01T00:00:00Z"))) == 3
    assert ids(reader.get("callbacks?to=2020-01-01T00:00:00Z")) == []
    one = said(reader.get(f"callbacks/{rows[0]['id']}"))
    assert set(one) >= CALLBACK
    assert TIME.fullmatch(one["received_at"])
    refused(reader.get("callbacks/4711"), 404, "NOT_FOUND")
    refused(reader.get("callbacks/abc"), 400, "INVALID_ID")
    refused(reader.get("callbacks?colour=red"), 400, "INVALID_ARGUMENT", "colour")
    assert told(reader, other)["status"] == "CALLBACK_SUCCESS"


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH"])
def test_post_callbacks_by_token_ends_the_run(reader, method):
    run, token = pending()
    done = {"run_id": run.pk, "final_status": "SUCCESS"}
    assert said(post(token, REPORT, method=method)) == done
    assert told(reader, run)["status"] == "CALLBACK_SUCCESS"
    assert said(post(token, {"status": "FAILED"}, method=method)) == done  # it holds
    run, token = pending()
    answer = post(token, {"status": "FAILED", "error_message": "full"}, method=method)
    assert said(answer) == {"run_id": run.pk, "final_status": "FAILED"}
    assert (told(reader, run)["status"], told(reader, run)["error_message"]) == ("FAILED", "full")
    assert said(post(token, REPORT))["final_status"] == "FAILED"


def test_post_callbacks_by_token_of_a_canceled_run_tells_that(operator):
    run, token = pending()
    said(operator.post(f"runs/{run.pk}/cancel"))
    assert said(post(token, REPORT)) == {"run_id": run.pk, "final_status": "CANCELED"}


def test_post_callbacks_by_the_token_of_an_earlier_attempt(reader):
    run, first, second = retried()
    refused(post(first, {"status": "FAILED"}), 410, "GONE")
    assert told(reader, run)["status"] == "RUNNING"
    assert said(post(first, REPORT))["final_status"] == "SUCCESS"
    for token in (first, second):  # it is over
        assert said(post(token, {"status": "FAILED"}))["final_status"] == "SUCCESS"
    rows = said(reader.get(f"runs/{run.pk}/callbacks"))["results"]
    assert sorted(row["status"] for row in rows) == ["IGNORED"] * 3 + ["RECEIVED"]


def test_post_callbacks_by_an_unknown_token_is_not_found():
    for token in ("0" * 32, "x", "0" * 400, "%00"):
        refused(post(token, REPORT), 404, "NOT_FOUND")


def test_post_callbacks_by_token_wants_a_status_it_knows():
    run, token = pending()
    for body in ({}, {"status": "DONE"}):
        refused(post(token, body), 400, "INVALID_ARGUMENT", "status")
    refused(post(token, "{"), 400, "INVALID_JSON")
    assert fresh(run).status == "CALLBACK_PENDING"


def test_post_callbacks_takes_any_json_beside_a_status_that_is_clear():
    _, token = pending()
    assert said(post(token, REPORT | {"error_message": 7}))["final_status"] == "SUCCESS"


def test_post_callbacks_takes_a_report_that_says_more_than_is_known(operator):
    for path in ("", "?colour=red"):
        _, token = pending()
        assert said(post(f"{token}{path}", REPORT | {"colour": "red"}))["final_status"] == "SUCCESS"
    run, _ = pending()
    body = REPORT | {"task_id": run.task_id, "run_id": run.pk, "colour": "red"}
    assert said(operator.post("callbacks", body))["final_status"] == "SUCCESS"


def test_post_callbacks_by_ids_needs_a_run_of_that_task(operator):
    run, _ = pending()
    body = REPORT | {"task_id": run.task_id, "run_id": run.pk}
    answer = operator.post("callbacks", body | {"task_id": make_task().pk})
    assert answer.status_code in (400, 404)
    for field in ("task_id", "run_id", "status"):
        less = {name: value for name, value in body.items() if name != field}
        refused(operator.post("callbacks", less), 400, "INVALID_ARGUMENT", field)
    done = {"run_id": run.pk, "final_status": "SUCCESS"}
    assert said(operator.post("callbacks", body)) == done
    assert said(operator.post("callbacks", body | {"status": "FAILED"})) == done
    waits = make_run()
    body |= {"task_id": waits.task_id, "run_id": waits.pk}
    refused(operator.post("callbacks", body), 409, "INVALID_STATE")


def test_post_pause_holds_all_firing_or_a_tags_until_resume(operator):
    tagged = make_run(task=make_task(tags=["a"])).pk
    other = make_run().pk
    soon = clock.now() + SECOND
    said(operator.post("pause", {"reason": "moving", "until": "2999-01-01T00:00:00Z"}))
    manual = said(operator.post(f"tasks/{make_task().pk}/trigger"), 202)["run_id"]
    assert [run.pk for run in claimed(soon)] == [manual]
    said(operator.post("resume"))
    said(operator.post("pause", {"tag": "a"}))
    assert [run.pk for run in claimed(soon)] == [other]
    said(operator.post("resume", {"tag": "a"}))
    assert [run.pk for run in claimed(soon)] == [tagged]
    refused(operator.post("pause", {"colour": 1}), 400, "INVALID_ARGUMENT", "colour")
    refused(operator.post("pause", {"until": "soon"}), 400, "INVALID_ARGUMENT", "until")


# --- the system ---------------------------------------------------------------------------------


def test_get_healthz_says_ok(db, django_assert_num_queries):
    with django_assert_num_queries(0):
        answer = Api().get("healthz")
    assert (answer.status_code, answer.text.strip()) == (200, "ok")
    assert answer["Content-Type"].startswith("text/plain")


def test_get_readyz_tells_of_the_database_the_migrations_and_the_scheduler(db):
    ready = said(Api().get("readyz"))
    assert ready.items() >= {"database": "ok", "migrations": "ok", "scheduler": "degraded"}.items()
    assert said(Api().get("readyz?require=scheduler"), 503)["scheduler"] == "degraded"


def test_get_version_is_text(db):
    answer = Api().get("version")
    assert answer.status_code == 200
    assert re.fullmatch(r"v\d+\.\d+\.\d+\S*", answer.text.strip())
    assert answer["Content-Type"].startswith("text/plain")


def test_get_metrics_is_text_for_prometheus_at_the_root(db):
    answer = Api().get("/metrics")
    assert answer.status_code == 200
    assert answer["Content-Type"].startswith("text/plain")
    assert "# TYPE " in answer.text
    assert Api().get("metrics").status_code in (401, 404)


def test_get_the_schema_and_the_docs_with_a_login_or_a_read_key(reader, console):
    schema = reader.get("/api/schema/")
    assert schema.status_code == 200
    assert re.search(r"openapi\"?:\s*\"?3\.1", schema.text)
    docs = reader.get("/api/docs/")
    assert (docs.status_code, docs["Content-Type"].split(";")[0]) == (200, "text/html")
    assert not re.search(r"""(src|href)=["']?(https?:)?//""", docs.text)
    for path in ("/api/schema/", "/api/docs/"):
        assert console.get(path).status_code == 200
        assert Api().get(path).status_code in (302, 401)
        assert make_api("node").get(path).status_code == 403
