import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from cronjob.api import paging
from runs.states import Status
from tests import marks
from tests.factories import NOON, make_run, make_task

pytestmark = marks.both


def names(answer):
    assert answer.status_code == 200, answer.json()
    return [task["name"] for task in answer.json()["results"]]


def test_an_empty_list_is_a_page_too(reader):
    empty = {"count": 0, "next": None, "previous": None, "results": []}
    assert reader.get("tasks").json() == empty


def test_a_list_has_twenty_a_page_and_links_to_the_next(reader):
    for number in range(45):
        make_task(name=f"t{number:02}")
    first = reader.get("tasks").json()
    assert (first["count"], len(first["results"]), first["previous"]) == (45, 20, None)
    second = reader.get(first["next"].removeprefix("http://testserver")).json()
    third = reader.get(second["next"].removeprefix("http://testserver")).json()
    assert [len(second["results"]), len(third["results"]), third["next"]] == [20, 5, None]
    back = reader.get(third["previous"].removeprefix("http://testserver")).json()
    assert back == second
    seen = [t["name"] for page in (first, second, third) for t in page["results"]]
    assert seen == [f"t{number:02}" for number in range(45)]


def test_a_page_holds_at_most_two_hundred(reader):
    for _ in range(3):
        make_task()
    assert len(reader.get("tasks?page_size=2").json()["results"]) == 2
    assert "page=2" in reader.get("tasks?page_size=2").json()["next"]
    assert reader.get("tasks?page_size=5000").status_code == 200
    assert paging.SIZE_MAX == 200


def test_a_page_beyond_the_end_is_empty(reader):
    make_task()
    answer = reader.get("tasks?page=7").json()
    assert (answer["count"], answer["results"], answer["next"]) == (1, [], None)


def test_counting_stops_at_ten_thousand(reader, monkeypatch):
    monkeypatch.setattr(paging, "COUNT_MAX", 3)
    for _ in range(3):
        make_task()
    assert "count_capped" not in reader.get("tasks").json()
    make_task()
    told = reader.get("tasks").json()
    assert (told["count"], told["count_capped"], len(told["results"])) == (3, True, 4)


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("status=ENABLED", ["sync stats", "send mail"]),
        ("status=DISABLED", ["clean up"]),
        ("name=S", ["sync stats", "send mail"]),
        ("name=up", ["clean up"]),
        ("exec_type=ASYNC", ["send mail"]),
        ("tag=nightly", ["sync stats", "clean up"]),
        ("tag=night", []),
        ("search=billing", ["sync stats"]),
        ("search=mailer", []),  # a reader does not search URLs
        ("tag=nightly&status=ENABLED", ["sync stats"]),
        ("ordering=name", ["clean up", "send mail", "sync stats"]),
        ("ordering=-name", ["sync stats", "send mail", "clean up"]),
        ("ordering=priority,-name", ["clean up", "sync stats", "send mail"]),
        ("", ["sync stats", "clean up", "send mail"]),
    ],
)
def test_a_list_is_filtered_and_ordered(reader, query, found):
    make_task(name="sync stats", tags=["nightly", "x"], description="for billing")
    make_task(name="clean up", tags=["nightly"], status="DISABLED", priority=0)
    make_task(name="send mail", exec_type="ASYNC", target_url="http://mailer/")
    assert sorted(names(reader.get(f"tasks?{query}"))) == sorted(found)
    if "ordering" in query:
        assert names(reader.get(f"tasks?{query}")) == found


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ("staus=ENABLED", "staus"),
        ("status=PAUSED", "status"),
        ("exec_type=x", "exec_type"),
        ("ordering=colour", "ordering"),
        ("page=0", "page"),
        ("page=one", "page"),
        ("page=-1", "page"),
        ("page=99999999999999999999", "page"),
        ("page_size=0", "page_size"),
        ("name=%00", "name"),
        ("format=xml", "format"),
    ],
)
def test_an_unknown_or_bad_parameter_is_refused(reader, query, field):
    answer = reader.get(f"tasks?{query}")
    assert (answer.status_code, answer.json()["code"]) == (400, "INVALID_ARGUMENT")
    assert list(answer.json()["fields"]) == [field]


def test_a_detail_takes_no_parameters(reader):
    answer = reader.get(f"tasks/{make_task().pk}?verbose=1")
    assert answer.json()["fields"] == {"verbose": ["There is no such parameter."]}


def test_a_task_tells_its_last_run(reader):
    task = make_task()
    make_run(task=task, status=Status.SUCCESS)
    last = make_run(task=task, status=Status.FAILED, end_time=NOON)
    make_run()
    told = reader.get(f"tasks/{task.pk}").json()["last_run"]
    assert told == {
        "id": last.pk,
        "status": "FAILED",
        "scheduled_time": last.scheduled_time.isoformat().replace("+00:00", "Z"),
        "end_time": "2026-01-01T12:00:00Z",
    }


def test_a_page_costs_the_same_number_of_queries_whatever_its_length(reader):
    def cost():
        with CaptureQueriesContext(connection) as queries:
            reader.get("tasks?page_size=200")
        return len(queries)

    make_run()
    cost()  # the first use of a key is written down
    few = cost()
    for _ in range(30):
        make_run()
    assert cost() == few


def test_a_trigger_reads_its_task_once(api):
    path = f"tasks/{make_task().pk}/trigger"
    api.post(path, {})  # the first use of a key is written down
    with CaptureQueriesContext(connection) as queries:
        assert api.post(path, {}).status_code == 202
    read = [query for query in queries.captured_queries if "FROM tasks" in query["sql"]]
    assert len(read) == 1


def test_who_may_not_change_a_task_does_not_see_its_secrets(reader, api):
    task = make_task(
        target_url="http://svc/?token=t1",
        headers={"Authorization": "Bearer s3cret", "X-Mine": "s3cret", "Accept": "*/*"},
        secret_headers=["X-Mine"],
        body_template='{"user": {"password": "s3cret"}, "n": 1}',
        secret_paths=["user.password"],
    )
    for place in ("tasks", f"tasks/{task.pk}"):
        assert "s3cret" not in reader.get(place).text
        assert "token=t1" not in reader.get(place).text
        assert api.get(place).text.count("s3cret") == 3
    assert reader.get(f"tasks/{task.pk}").json()["headers"]["Accept"] == "*/*"


def test_secrets_of_a_url_cannot_be_guessed_by_searching(reader, api):
    make_task(name="t", target_url="http://svc/?api_key=hush")
    assert names(reader.get("tasks?search=key=hush")) == []
    assert names(api.get("tasks?search=key=hush")) == ["t"]
