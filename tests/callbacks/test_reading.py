import re

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from callbacks.models import AsyncCallback
from callbacks.serializers import BEGINNING
from tests import marks
from tests.callbacks.reports import pending, post
from tests.factories import NOON, SECOND, make_api, make_run

pytestmark = marks.both


def make_callback(run, **fields):
    values = {"attempt": 1, "received_at": NOON, "status": "RECEIVED", "body": "{}", **fields}
    return AsyncCallback.objects.create(task_run=run, task_id=run.task_id, **values)


def ids(answer):
    assert answer.status_code == 200, answer.json()
    return [row["id"] for row in answer.json()["results"]]


def test_what_a_target_reported_can_be_read(reader):
    run, token = pending()
    post(token, {"status": "FAILED", "error_message": "disk full"}, x_source="worker 7")
    post(token, {"status": "SUCCESS"})
    first, second = reader.get(f"runs/{run.pk}/callbacks").json()["results"]
    assert set(first) >= {
        "id", "run_id", "attempt", "received_at", "status", "reason", "headers", "body",
    }  # fmt: skip
    assert (first["run_id"], first["attempt"], first["status"]) == (run.pk, 1, "RECEIVED")
    assert (second["status"], bool(second["reason"])) == ("IGNORED", True)
    assert "disk full" in first["body"]
    assert first["headers"]["X-Source"] == "worker 7"
    whole = reader.get(f"callbacks/{first['id']}").json()
    assert whole == {name: first[name] for name in whole}
    assert token not in reader.get("callbacks").text


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("", [3, 2, 1]),
        ("status=IGNORED", [2]),
        ("run_id={run}", [2, 1]),
        ("task_id={task}", [2, 1]),
        ("from=2026-01-01T12:00:01Z", [3, 2]),
        ("to=2026-01-01T12:00:00Z", [1]),
        ("before_id={second}", [1]),
    ],
)
def test_callbacks_are_filtered_newest_first(reader, query, found):
    run = make_run()
    made = [
        make_callback(run),
        make_callback(run, status="IGNORED", received_at=NOON + SECOND),
        make_callback(make_run(), received_at=NOON + 2 * SECOND),
    ]
    query = query.format(run=run.pk, task=run.task_id, second=made[1].pk)
    assert ids(reader.get(f"callbacks?{query}")) == [made[n - 1].pk for n in found]


def test_the_callbacks_of_a_run_come_in_their_order(reader):
    run = make_run()
    made = [make_callback(run).pk for _ in range(3)]
    make_callback(make_run())
    assert ids(reader.get(f"runs/{run.pk}/callbacks")) == made


def test_a_page_reads_only_the_beginning_of_a_body(reader):
    callback = make_callback(make_run(), body="x" * (BEGINNING + 1))
    with CaptureQueriesContext(connection) as seen:
        (row,) = reader.get("callbacks").json()["results"]
    assert (len(row["body"]), row["body_cut"]) == (BEGINNING, True)
    whole = re.compile(r'(?<!\()"async_callbacks"\."body"')
    assert not any(whole.search(query["sql"]) for query in seen.captured_queries)
    assert len(reader.get(f"callbacks/{callback.pk}").json()["body"]) == BEGINNING + 1


def test_a_page_costs_the_same_number_of_queries_whatever_its_length(reader):
    def cost():
        with CaptureQueriesContext(connection) as seen:
            reader.get("callbacks?page_size=200")
        return len(seen)

    make_callback(make_run())
    cost()  # the first use of a key is written down
    few = cost()
    for _ in range(10):
        make_callback(make_run())
    assert cost() == few


@pytest.mark.parametrize("path", ["callbacks/4711", "runs/4711/callbacks"])
def test_what_is_not_there_is_not_found(reader, path):
    assert reader.get(path).json()["code"] == "NOT_FOUND"


@pytest.mark.parametrize("path", ["callbacks/0", "callbacks/abc", f"callbacks/{'1' * 32}"])
def test_an_id_that_is_none_is_said_to_be_none(reader, path):
    assert reader.get(path).json()["code"] == "INVALID_ID"


def test_a_detail_takes_no_parameters(reader):
    answer = reader.get(f"callbacks/{make_callback(make_run()).pk}?verbose=1")
    assert answer.json()["fields"] == {"verbose": ["There is no such parameter."]}


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE"])
def test_the_callbacks_of_a_run_can_only_be_read(method):
    run = make_run()
    body = {"task_id": run.task_id, "run_id": run.pk, "status": "SUCCESS"}
    answer = make_api("write").call(method, f"runs/{run.pk}/callbacks", body)
    assert (answer.status_code, answer.json()["code"]) == (405, "METHOD_NOT_ALLOWED")


@pytest.mark.parametrize("path", ["callbacks", "runs", "runs/1/callbacks", "tasks", "/jobs"])
def test_options_says_what_is_there(api, path):
    assert api.call("OPTIONS", path).status_code == 200


@pytest.mark.parametrize("number", ["1", "0", "9" * 19])
def test_a_token_that_looks_like_an_id_is_a_token_all_the_same(number):
    answer = post(number)
    assert (answer.status_code, answer.json()["code"]) == (404, "NOT_FOUND")
