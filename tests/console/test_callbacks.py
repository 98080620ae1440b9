"""Callbacks in the console: on the page of their run, and in a list of their own."""

from datetime import timedelta

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from callbacks.models import AsyncCallback
from callbacks.serializers import BEGINNING
from cronjob.lib import clock
from runs.models import TaskRun
from tests import marks
from tests.callbacks.reports import pending, post
from tests.console.pages import Page, place
from tests.factories import NOON, make_run, make_task

pytestmark = marks.both


def page_of(browser, run):
    return Page(browser.get(f"{place(TaskRun)}{run.pk}/change/")).text


def test_the_page_of_a_run_shows_its_callbacks_in_order_with_body_and_headers(viewer):
    run, token = pending()
    post(token, {"status": "SUCCESS", "data": {"rows": 42}}, X_Mine="first")
    post(token, {"status": "FAILED"}, X_Mine="second")
    text = page_of(viewer, run)
    parts = ["RECEIVED", '"rows": 42', '"first"', "IGNORED", "CALLBACK_SUCCESS already", '"second"']
    places = [text.index(part) for part in parts]
    assert places == sorted(places)


def test_the_page_of_a_run_that_nobody_called_back_to_has_no_empty_heading(viewer):
    text = page_of(viewer, make_run(task=make_task()))
    assert "Callbacks" in text  # in the menu
    assert text.count("Callbacks") == page_of(viewer, pending()[0]).count("Callbacks")


def test_a_run_that_waits_says_how_far_it_is_and_how_much_time_is_left(viewer):
    run, token = pending()
    later = clock.now() + timedelta(minutes=5, seconds=30)
    TaskRun.objects.filter(pk=run.pk).update(callback_deadline=later)
    assert "5m2" in page_of(viewer, run)
    post(token, {"status": "RUNNING", "progress": 0.4, "message": "rows 1 to 40"})
    text = page_of(viewer, run)
    assert "40% done, 5m" in text
    assert "left, rows 1 to 40" in text


def test_a_run_whose_time_is_over_but_not_swept_yet_says_so(viewer):
    run, _ = pending()
    assert "no time left" in page_of(viewer, run)


def test_a_page_of_very_many_callbacks_shows_some_of_them(viewer, django_assert_max_num_queries):
    run, _ = pending()
    AsyncCallback.objects.bulk_create(
        AsyncCallback(task_run=run, received_at=NOON, status="IGNORED", reason=f"reason {n};")
        for n in range(60)
    )
    with django_assert_max_num_queries(20):
        text = page_of(viewer, run)
    assert "reason 0;" in text
    assert "reason 40;" not in text


def test_the_page_of_a_run_shows_the_callback_that_ended_it_however_many_came_before(viewer):
    run, token = pending()
    for _ in range(25):
        post(token, {"status": "DONE"})
    post(token, {"status": "SUCCESS", "data": {"rows": 42}})
    text = page_of(viewer, run)
    assert '"rows": 42' in text
    assert text.index("RECEIVED") < text.index("IGNORED")


def test_the_page_of_a_run_loads_no_more_than_the_beginning_of_a_body(viewer):
    run, token = pending()
    post(token, {"status": "SUCCESS", "data": "x" * BEGINNING + "the end"})
    with CaptureQueriesContext(connection) as asked:
        text = page_of(viewer, run)
    assert "xxx…" in text
    assert "the end" not in text
    named = '"async_callbacks"."body"'
    (sql,) = [query["sql"] for query in asked if named in query["sql"]]
    assert sql.count(named) == 1
    assert str(BEGINNING + 1) in sql


def listed(browser, query):
    answer = browser.get(f"{place(AsyncCallback)}?{query}")
    return sorted(row.task_run_id for row in answer.context["cl"].result_list)


@pytest.fixture
def two():
    first, second = (
        make_run(task=make_task(name=name), status="SUCCESS") for name in ("mail", "stats")
    )
    for run, status in ((first, "RECEIVED"), (second, "IGNORED")):
        AsyncCallback.objects.create(
            task_run=run, task_id=run.task_id, received_at=NOON, status=status
        )
    return first.pk, second.pk


def test_the_list_is_found_by_run_task_and_status(viewer, two):
    first, second = two
    assert listed(viewer, "") == [first, second]
    assert listed(viewer, f"q={second}") == [second]
    assert listed(viewer, f"q=run+{first}") == [first]
    assert listed(viewer, "q=mai") == [first]
    assert listed(viewer, "q=" + "9" * 30) == []
    assert listed(viewer, "status__exact=IGNORED") == [second]
    assert listed(viewer, f"task_run={first}") == [first]
    task = TaskRun.objects.get(pk=second).task_id
    assert listed(viewer, f"task={task}") == [second]


def test_what_a_target_sends_is_shown_as_text(viewer):
    run, token = pending()
    post(token, {"status": "SUCCESS", "data": "<script>alert(1)</script>"}, X_Mine="<b>x</b>")
    answer = viewer.get(f"{place(TaskRun)}{run.pk}/change/").content.decode()
    assert "<script>alert(1)" not in answer
    assert "<b>x</b>" not in answer
