"""Guarded writes of many rows: each only while it is what its writer saw."""

from datetime import timedelta

import pytest
from django.db import DataError, connection, transaction
from django.test.utils import CaptureQueriesContext

from cronjob.lib.rows import MANY, compare_and_set
from runs.models import TaskRun
from tasks.models import Task
from tests import marks
from tests.factories import NOON, SECOND, make_run, make_task

pytestmark = marks.both


def test_rows_that_are_as_they_were_seen_get_their_values_and_are_told():
    tasks = [make_task(next_run_at=NOON + n * SECOND) for n in range(5)]
    Task.objects.filter(pk=tasks[1].pk).update(version=2)
    Task.objects.filter(pk=tasks[2].pk).update(next_run_at=NOON - SECOND)
    rows = [(t.pk, t.next_run_at, t.version, NOON + timedelta(days=1), True) for t in tasks]
    rows.append((tasks[-1].pk + 1000, NOON, 1, NOON, True))  # never was
    won = compare_and_set(
        Task, rows, seen=("next_run_at", "version"), sets=("next_run_at", "ended")
    )
    assert won == {tasks[0].pk, tasks[3].pk, tasks[4].pk}
    assert set(Task.objects.filter(ended=True).values_list("pk", flat=True)) == won
    tasks[0].refresh_from_db()
    assert tasks[0].next_run_at == NOON + timedelta(days=1)


def test_null_is_seen_and_set_like_any_value():
    task = make_task(next_run_at=None)
    row = (task.pk, None, NOON, NOON)
    assert compare_and_set(Task, [row], seen=("next_run_at",), sets=("next_moment", "next_run_at"))
    row = (task.pk, NOON, None, None)
    assert compare_and_set(Task, [row], seen=("next_run_at",), sets=("next_moment", "next_run_at"))
    task.refresh_from_db()
    assert (task.next_moment, task.next_run_at) == (None, None)


def test_text_json_and_numbers_arrive_as_they_are():
    run = make_run()
    values = ("a'b\"c\\d\n{}, ü 中", {"a": [1, None, "ü"]}, 2**40, None, [])
    sets = ("request_body", "timings", "lateness_ms", "template", "attempts")
    assert compare_and_set(TaskRun, [(run.pk, 0, *values)], seen=("fence",), sets=sets)
    kept = TaskRun.objects.get(pk=run.pk)
    assert tuple(getattr(kept, name) for name in sets) == values


@pytest.mark.parametrize("count", [1, MANY - 1, MANY])
def test_what_is_the_same_in_all_rows_arrives_in_each_of_them(count):
    runs = [make_run(moment=NOON + n * SECOND) for n in range(count)]
    values = ("a'b\"%s\\n", {}, 2**40, None, [], True, NOON, 0.25)
    sets = (
        "request_body", "timings", "lateness_ms", "template", "attempts", "response_truncated",
        "start_time", "progress",
    )  # fmt: skip
    rows = [(run.pk, 0, run.moment, *values) for run in runs]
    assert len(compare_and_set(TaskRun, rows, seen=("fence", "moment"), sets=sets)) == count
    for kept in TaskRun.objects.all():
        assert tuple(getattr(kept, name) for name in sets) == values


@pytest.mark.parametrize("count", [3, MANY])
def test_what_is_equal_here_and_not_in_json_is_kept_apart(count):
    runs = [make_run(moment=NOON + n * SECOND) for n in range(count)]
    told = [{"a": (1, True, 1.0)[n % 3]} for n in range(count)]
    rows = [(run.pk, 0, value) for run, value in zip(runs, told, strict=True)]
    compare_and_set(TaskRun, rows, seen=("fence",), sets=("timings",))
    kept = [repr(run.timings) for run in TaskRun.objects.order_by("id")]
    assert kept == list(map(repr, told))


@pytest.mark.on("postgresql")
def test_few_rows_are_written_by_one_statement_whatever_they_have_in_common():
    runs = [make_run(moment=NOON + n * SECOND) for n in range(MANY - 1)]
    said = set()
    for reasons in (["a"] * 2, ["a", "b"], ["b"], ["c"] * len(runs)):
        rows = [(run.pk, 0, reason) for run, reason in zip(runs, reasons, strict=False)]
        with CaptureQueriesContext(connection) as asked:
            compare_and_set(TaskRun, rows, seen=("fence",), sets=("reason",))
        said |= {query["sql"].partition("FROM json")[0] for query in asked}
    assert len(said) == 1


@pytest.mark.on("postgresql")
@pytest.mark.parametrize("count", [1, MANY])
def test_what_is_too_long_is_refused_and_not_cut(count):
    runs = [make_run(moment=NOON + n * SECOND) for n in range(count)]
    rows = [(run.pk, 0, "x" * 1000) for run in runs]
    with pytest.raises(DataError), transaction.atomic():
        compare_and_set(TaskRun, rows, seen=("fence",), sets=("reason",))


def test_nothing_to_write_asks_nothing(django_assert_num_queries):
    with django_assert_num_queries(0):
        assert compare_and_set(Task, [], seen=("version",), sets=("ended",)) == set()
