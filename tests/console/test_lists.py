"""The lists: found by words and filters, quick at any length, and helpful when empty."""

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from callbacks.models import AsyncCallback
from cronjob.api.models import ApiKey
from runs.models import TaskRun
from runs.states import Status, Trigger
from tasks.models import Task
from tests import marks
from tests.console.pages import Page, place
from tests.factories import NOON, make_key, make_run, make_task

pytestmark = marks.both


def named(browser, query, model=Task):
    """What the list shows, in its order."""
    answer = browser.get(f"{place(model)}?{query}")
    assert answer.status_code == 200, answer.headers
    return [str(row) for row in answer.context["cl"].result_list]


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("", ["clean up", "mail", "stats"]),
        ("q=STAT", ["stats"]),
        ("q=billing", ["stats"]),
        ("q=mailer", []),  # who may not see the secrets of a URL does not search it
        ("q=billing+stats", ["stats"]),
        ("q=%25", []),
        ("q=nowhere", []),
        ("status__exact=DISABLED", ["clean up"]),
        ("status__exact=ENABLED", ["mail", "stats"]),
        ("status__exact=", ["clean up", "mail", "stats"]),
        ("schedule_kind__exact=CRON", ["stats"]),
        ("schedule_kind__exact=MANUAL", []),
        ("exec_type__exact=ASYNC", ["mail"]),
        ("exec_type__exact=SYNC&status__exact=ENABLED&q=s", ["stats"]),
        ("status__exact=SLEEPING", []),
        ("o=-1", ["stats", "mail", "clean up"]),
        ("o=6.1&next_run_at__isnull=False", ["mail"]),
    ],
)
def test_tasks_are_found_by_words_and_filters(operator, query, found):
    make_task(name="stats", description="for billing", cron_expr="0 0 0 * * *")
    make_task(name="mail", exec_type="ASYNC", target_url="http://mailer/", next_run_at=NOON)
    make_task(name="clean up", status="DISABLED")
    make_task(name="gone", deleted=True)
    assert named(operator, query) == found


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("", [3, 2, 1]),
        ("status__exact=FAILED", [2]),
        ("trigger__exact=MANUAL", [3]),
        ("q=mail", [3, 2]),
        ("q=trace-1", [1]),
        (
            "scheduled_time__gte=2026-01-01+12:00:00%2B00:00"
            "&scheduled_time__lt=2026-01-01+12:30:00%2B00:00",
            [1],
        ),
    ],
)
def test_runs_are_found_by_task_trace_status_trigger_and_time(viewer, query, found):
    mail = make_task(name="mail")
    later = NOON.replace(hour=13)
    runs = {
        make_run(trace_id="trace-1", scheduled_time=NOON).pk: 1,
        make_run(task=mail, status=Status.FAILED, scheduled_time=later).pk: 2,
        make_run(task=mail, trigger=Trigger.MANUAL, scheduled_time=later).pk: 3,
    }
    shown = [runs[int(text.split()[1])] for text in named(viewer, query, TaskRun)]
    assert shown == found


def test_a_list_tells_what_matters_about_each_task(viewer):
    make_task(name="a", cron_expr="0 0 0 * * *", timezone="Asia/Shanghai", tags=["nightly"])
    make_task(name="b", every_seconds=5400, next_run_at=NOON)
    make_task(name="c", run_at=NOON)
    make_task(name="d", schedule_kind="MANUAL", exec_type="JOB", target_url="")
    page = Page(viewer.get(place(Task)))
    for text in ("0 0 0 * * * (Asia/Shanghai)", "every 1h30m", "once, 2026-01-01 12:00:00 UTC"):
        assert text in page.text
    for text in ("when triggered", "nightly", "GET http://127.0.0.1:9/never", "JOB"):
        assert text in page.text


def test_a_list_is_cut_into_pages(viewer):
    for number in range(60):
        make_task(name=f"t{number:02}")
    assert named(viewer, "") == [f"t{number:02}" for number in range(50)]
    assert named(viewer, "p=2") == [f"t{number:02}" for number in range(50, 60)]


def make(model):
    if model is Task:
        make_task(tags=["a"], next_run_at=NOON)
    elif model is ApiKey:
        make_key("read", "operate")
    else:
        run = make_run(status=Status.FAILED)
        if model is AsyncCallback:
            AsyncCallback.objects.create(task_run=run, received_at=NOON, status="RECEIVED")


@pytest.mark.parametrize("model", [Task, TaskRun, AsyncCallback, ApiKey])
def test_a_list_costs_the_same_number_of_queries_whatever_its_length(console, model):
    def cost():
        with CaptureQueriesContext(connection) as queries:
            assert console.get(place(model)).status_code == 200
        return len(queries)

    for _ in range(3):
        make(model)
    few = cost()
    for _ in range(27):
        make(model)
    assert cost() == few
    assert len(named(console, "", model)) == 30


@pytest.mark.parametrize(
    ("model", "next_step"),
    [
        (Task, "No task yet. A task says which URL is called"),
        (TaskRun, "Runs appear here when a task comes due or is triggered."),
        (AsyncCallback, "They come from the targets of ASYNC tasks."),
        (ApiKey, "Make one for each program that talks to the API."),
    ],
)
def test_an_empty_list_says_what_to_do_next(console, model, next_step):
    page = Page(console.get(place(model)))
    assert next_step in page.text
    may_add = model in (Task, ApiKey)
    assert (f"{place(model)}add/" in page.links) is may_add


def test_an_empty_list_offers_no_more_than_one_may(viewer):
    page = Page(viewer.get(place(Task)))
    assert "No task yet." in page.text
    assert f"{place(Task)}add/" not in page.links


def test_a_list_where_nothing_matches_leads_back_to_everything(viewer):
    make_task()
    for query in ("q=nowhere", "status__exact=DISABLED"):
        page = Page(viewer.get(f"{place(Task)}?{query}"))
        assert "Nothing matches." in page.text
        assert "No task yet" not in page.text
        assert "?" in page.links
