"""What the database itself refuses of a task, and how the due ones are found among very many."""

import uuid
from datetime import timedelta

import pytest
from django.db import DataError, IntegrityError, connection, transaction
from django.db.models.deletion import ProtectedError

from tasks.models import Task
from tests import marks
from tests.factories import NOON, SECOND, make_run, make_task

pytestmark = marks.both

DAY = timedelta(days=1)


def refused(error=IntegrityError, **fields):
    count = Task.objects.count()
    with pytest.raises(error), transaction.atomic():
        make_task(**fields)
    assert Task.objects.count() == count


# --- what the database refuses --------------------------------------------------------------


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("schedule_kind", "HOURLY"),
        ("exec_type", "LATER"),
        ("http_method", "TRACE"),
        ("callback_method", "GET"),
        ("concurrency_policy", "WAIT"),
        ("misfire_policy", "FORGET"),
        ("on_lost", "HOPE"),
        ("priority", 4),
        ("priority", -1),
        ("status", "PAUSED"),
        ("status", "enabled"),
        ("status", ""),
        ("max_concurrency", -1),
        ("every_seconds", -1),
    ],
)
def test_the_database_refuses_a_value_that_no_list_names(field, value):
    refused(**{field: value})


@pytest.mark.parametrize("field", ["schedule_kind", "exec_type", "http_method", "callback_method",
                                   "concurrency_policy", "misfire_policy", "on_lost", "priority",
                                   "status"])  # fmt: skip
def test_the_database_takes_every_value_that_a_list_names(field):
    moments = {"CRON": {"cron_expr": "0 0 0 * * *"}, "ONCE": {"run_at": NOON}}
    for value, _ in Task._meta.get_field(field).choices:
        assert getattr(make_task(**{field: value}, **moments.get(value, {})), field) == value


@pytest.mark.parametrize(
    "fields",
    [
        {"schedule_kind": "CRON"},
        {"schedule_kind": "EVERY", "every_seconds": None},
        {"schedule_kind": "ONCE"},
        {"schedule_kind": "CRON", "cron_expr": "0 0 0 * * *", "every_seconds": 60},
        {"schedule_kind": "EVERY", "cron_expr": "0 0 0 * * *"},
        {"schedule_kind": "EVERY", "run_at": NOON},
        {"schedule_kind": "ONCE", "run_at": NOON, "every_seconds": 60},
        {"schedule_kind": "MANUAL", "cron_expr": "0 0 0 * * *"},
        {"schedule_kind": "MANUAL", "every_seconds": 60},
        {"schedule_kind": "MANUAL", "run_at": NOON},
    ],
)
def test_the_database_refuses_a_schedule_that_does_not_fit_its_kind(fields):
    refused(**fields)


def test_the_database_refuses_a_window_that_ends_before_it_begins():
    refused(start_at=NOON, end_at=NOON)
    refused(start_at=NOON, end_at=NOON - SECOND)
    for window in ({"start_at": NOON}, {"end_at": NOON}, {"start_at": NOON, "end_at": NOON + DAY}):
        make_task(**window)


def test_the_database_refuses_a_next_run_without_its_moment():
    refused(next_run_at=NOON, next_moment=None)
    make_task(next_run_at=NOON + SECOND, next_moment=NOON)
    make_task(next_run_at=None, next_moment=NOON)


def test_two_tasks_never_share_a_uuid():
    task = make_task(deleted=True)
    refused(uuid=task.uuid)
    assert isinstance(task.uuid, uuid.UUID)
    assert make_task().uuid != make_task().uuid


def test_a_live_name_is_unique_and_free_again_after_deletion():
    task = make_task(name="mine")
    refused(name="mine")
    make_task(name="Mine")
    Task.objects.filter(pk=task.pk).update(deleted=True)
    again = make_task(name="mine")
    Task.objects.filter(pk=again.pk).update(deleted=True)
    make_task(name="mine")
    assert Task.objects.filter(name="mine").count() == 3
    assert Task.objects.filter(live_name="mine").count() == 1
    with pytest.raises(IntegrityError), transaction.atomic():
        Task.objects.filter(pk=task.pk).update(deleted=False)


def test_a_task_may_not_take_the_name_of_another():
    make_task(name="mine")
    other = make_task(name="other")
    with pytest.raises(IntegrityError), transaction.atomic():
        Task.objects.filter(pk=other.pk).update(name="mine")


def test_a_task_with_runs_cannot_be_erased():
    task = make_run().task
    with pytest.raises(ProtectedError):
        task.delete()
    with pytest.raises(IntegrityError):
        erase(task)


@transaction.atomic
def erase(task):
    """Past Django, as somebody at the database's own shell would."""
    with connection.cursor() as cursor:
        cursor.execute("DELETE FROM tasks WHERE id = %s", [task.pk])
    connection.check_constraints()


@pytest.mark.on("postgresql")
def test_a_text_too_long_for_its_column_is_refused_and_not_cut():
    refused(DataError, name="x" * 129)
    refused(DataError, target_url="http://" + "x" * 2048)


# --- which tasks are found ------------------------------------------------------------------


def names(tasks):
    return [task.name for task in tasks]


def test_live_tasks_are_those_that_are_not_deleted():
    make_task(name="off", status="DISABLED")
    make_task(name="gone", deleted=True)
    assert names(Task.objects.live()) == ["off"]


@pytest.mark.parametrize(
    ("tag", "found"),
    [
        ("nightly", ["a", "b"]),
        ("night", []),
        ("Nightly", []),
        ("夜", ["b"]),
        ('say"hi', ["c"]),
        ("it's", ["c"]),
        ("back\\slash", ["c"]),
        ("%", []),
        ("100%", ["c"]),
        ("1", ["d"]),
        ("true", ["d"]),
        ("", []),
        ("x" * 5000, []),
    ],
)
def test_tasks_are_found_by_a_whole_tag(tag, found):
    make_task(name="a", tags=["x", "nightly"])
    make_task(name="b", tags=["nightly", "夜"])
    make_task(name="c", tags=['say"hi', "it's", "back\\slash", "100%"])
    make_task(name="d", tags=["1", "true"])
    make_task(name="e", tags=[])
    assert names(Task.objects.tagged(tag).order_by("name")) == found
