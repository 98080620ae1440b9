"""Every poll is one range of one index, however many runs there ever were."""

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from runs.claim import claim
from runs.models import TaskRun
from runs.rescue import expire
from runs.states import FINAL, Status
from tasks.models import Priority
from tests import marks, plans
from tests.factories import MINUTE, NOON, copy, make_run, make_task
from tests.runs.engine import registered

pytestmark = marks.both
DONE, OPEN = 20_000, 40
LATER = NOON.replace(year=NOON.year + 1)  # than any moment of a run that a test makes
EARLIER = {
    "sqlite": "datetime(moment, '-' || n || ' seconds')",
    "postgresql": "moment - n * interval '1 second'",
}


@pytest.fixture
def history(db):
    """Many runs that are over, few that are not, and what the planner knows of them."""
    task = make_task()
    first = make_run(task=task, status=Status.SUCCESS, moment=NOON - 10 * MINUTE)
    copy(first, DONE, moment=EARLIER[connection.vendor])
    for _ in range(OPEN):
        make_run(task=task)
        make_run(status=Status.RUNNING, owner="host:1:boot")
        make_run(status=Status.CALLBACK_PENDING)
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE")
    return task


def planned(sql):
    """With its values in it."""
    with connection.cursor() as cursor:
        cursor.execute(f"EXPLAIN {'QUERY PLAN ' * (connection.vendor == 'sqlite')}{sql}")
        return str(cursor.fetchall())


def test_what_is_ready_is_one_range_of_an_index(history):
    registered("a")
    asked = []
    with connection.execute_wrapper(plans.listening(asked)):
        assert claim(LATER, owner="a", room=OPEN, priorities=[Priority.NORMAL]).moved
    sql, given = next(one for one in asked if "ready_at IS NOT NULL" in one[0])
    assert "run_ready" in plans.indexes(sql, given)


@pytest.mark.parametrize(
    ("index", "fields"),
    [
        ("run_overdue", {"deadline_at__isnull": False, "owner": "host:1:boot"}),
        ("run_overdue", {"deadline_at__lt": NOON}),
        ("run_callback_due", {"callback_deadline__lt": NOON}),
    ],
)
def test_what_is_swept_is_found_by_its_index(history, index, fields):
    assert index in TaskRun.objects.filter(**fields).explain()


def test_the_sweep_of_callbacks_is_one_range_of_its_index_however_many_are_awaited(history):
    first = make_run(status=Status.CALLBACK_PENDING, trigger="MANUAL")
    copy(first, 5000)
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE")
    with CaptureQueriesContext(connection) as seen:
        assert expire(NOON) == 0
    (asked,) = [q["sql"] for q in seen.captured_queries if q["sql"].startswith("SELECT")]
    plan = planned(asked)
    assert "run_callback_due" in plan
    assert "SORT" not in plan.upper().replace("SORT KEY", "")
    assert "TEMP B-TREE" not in plan


def test_what_of_a_task_is_not_over_is_found_without_its_history(history):
    waiting = TaskRun.objects.filter(task=history).waiting()
    plan = waiting.explain()
    assert "run_open_of_task" in plan or "run_ready" in plan
    assert waiting.count() == OPEN


def test_the_newest_run_of_a_task_and_the_failed_of_all_are_found_by_an_index(history):
    newest = TaskRun.objects.filter(task=make_run().task).order_by("-id")[:1]
    assert "run_of_task" in newest.explain()
    failed = TaskRun.objects.filter(status=Status.FAILED).order_by("-id")[:20]
    assert "run_by_status" in failed.explain()
    by_time = TaskRun.objects.filter(task=history, scheduled_time__lt=NOON - 20 * MINUTE)
    assert "by_time" in by_time.order_by("scheduled_time")[:20].explain()


def test_what_failed_in_a_span_of_time_is_found_by_its_index(history, reader):
    failed = make_run(task=history, status=Status.FAILED, moment=NOON.replace(year=2024))
    copy(failed, 1000, moment=EARLIER[connection.vendor])
    for _ in range(2):
        make_run(task=history, status=Status.FAILED)
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE")
    asked = "runs?status=FAILED&from=2026-01-01T12:00:00Z&page_size=1"
    with CaptureQueriesContext(connection) as seen:
        assert reader.get(asked).json()["count"] == 2
    (count,) = [q["sql"] for q in seen.captured_queries if "COUNT(*)" in q["sql"]]
    assert "run_ended_by_time" in planned(count)


def test_what_prune_takes_is_one_range_of_its_index(history):
    old = TaskRun.objects.filter(status=Status.SUCCESS, end_time__lt=NOON - MINUTE)
    assert "run_ended" in old.order_by("end_time")[:200].explain()
    assert Status.SUCCESS in FINAL


def test_a_page_of_tasks_does_not_load_what_their_runs_received(history):
    (run,) = TaskRun.objects.newest_of([history]).values()
    assert "response_body" in run.get_deferred_fields()


@pytest.mark.parametrize("verb", ["newest_of", "begun_of", "ended_of"])
def test_a_page_of_new_tasks_does_not_go_through_the_runs_of_all_others(db, verb):
    run = make_run(status=Status.SUCCESS, moment=NOON - 10 * MINUTE, start_time=NOON)
    copy(run, DONE, moment=EARLIER[connection.vendor])
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE")
    new = [make_task() for _ in range(20)]
    with CaptureQueriesContext(connection) as seen:
        found = getattr(TaskRun.objects, verb)([*new, run.task])
    assert [*found] == [run.task_id]
    (asked,) = [query["sql"] for query in seen.captured_queries]
    plan = planned(asked)
    assert "Backward" not in plan
    assert "Seq Scan on task_runs" not in plan
    assert "SCAN task_runs" not in plan
