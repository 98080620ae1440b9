"""Which tasks are due, and how they are found among very many."""

from datetime import timedelta

from django.db import connection

from runs.glance import BEGINNING
from runs.materialise import due
from tasks.models import Task
from tests import marks, plans
from tests.factories import MINUTE, NOON, SECOND, make_task, make_tasks

pytestmark = marks.both

DAY = timedelta(days=1)


def names(now):
    return [found.task.name for found in due(now, since=BEGINNING, most=200)]


def test_due_tasks_come_the_oldest_first_and_then_as_they_were_made():
    for name, late in (("c", 0), ("a", 2), ("d", 0), ("b", 1)):
        make_task(name=name, next_run_at=NOON - late * MINUTE)
    asked = []
    with connection.execute_wrapper(plans.listening(asked)):
        assert names(NOON) == ["a", "b", "c", "d"]
    assert "ORDER BY next_run_at, id LIMIT" in asked[0][0]  # ties are no chance


def test_a_task_is_due_from_its_very_moment():
    make_task(name="now", next_run_at=NOON)
    make_task(name="next", next_run_at=NOON + timedelta(microseconds=1))
    assert names(NOON) == ["now"]
    assert names(NOON - timedelta(microseconds=1)) == []


def test_the_jitter_of_a_task_counts_and_not_its_moment():
    make_task(name="later", next_moment=NOON, next_run_at=NOON + MINUTE)
    assert names(NOON) == []
    assert names(NOON + MINUTE) == ["later"]


def test_what_is_disabled_deleted_or_has_no_next_run_is_never_due():
    make_task(name="due", next_run_at=NOON)
    make_task(status="DISABLED", next_run_at=NOON)
    make_task(deleted=True, next_run_at=NOON)
    make_task(schedule_kind="MANUAL")
    make_task(run_at=NOON, ended=True)
    make_task(next_run_at=None, next_moment=NOON)
    assert names(NOON + DAY) == ["due"]


# --- among very many ------------------------------------------------------------------------


def make_very_many():
    """100,000 tasks: a few due at noon, the others on the next day, some of them disabled."""
    with connection.cursor() as cursor:
        if connection.vendor == "postgresql":
            cursor.execute("SET LOCAL statement_timeout = 0")  # for making them
        make_tasks(100_000, next_run_at=NOON + DAY)
        oldest = Task.objects.order_by("id").values_list("id", flat=True)
        Task.objects.filter(pk__in=list(oldest[:300])).update(next_run_at=NOON)
        Task.objects.filter(pk__in=list(oldest[300:500])).update(status="DISABLED")
        cursor.execute("ANALYZE tasks")
        if connection.vendor == "postgresql":
            cursor.execute("SET LOCAL statement_timeout = '5s'")


def test_the_poll_is_one_range_of_one_index_among_100_000_tasks():
    make_very_many()
    assert Task.objects.count() == 100_001
    for now, late in ((NOON - SECOND, 0), (NOON, 300), (NOON + DAY, 99_801)):
        asked = []
        with connection.execute_wrapper(plans.listening(asked)):
            assert len(due(now, since=BEGINNING, most=200)) == min(late, 200)
        ((sql, given),) = asked
        assert "task_due" in plans.indexes(sql, given)
        assert len(due(now, since=BEGINNING, most=100_001)) == late
