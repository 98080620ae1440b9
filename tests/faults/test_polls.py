"""What waits in the future, or is over, does not slow down what is due now."""

import pytest
from django.db import connection

from runs.claim import claim
from runs.glance import BEGINNING, glance
from runs.materialise import due
from runs.models import TaskRun
from runs.states import Status
from tasks.models import Priority
from tests import marks, plans
from tests.factories import MINUTE, NOON, copy, make_run, make_task
from tests.faults.world import LONG
from tests.runs.engine import registered

pytestmark = [pytest.mark.faults, *marks.both]
MANY, READY, TASKS = 1_000_000 if LONG else 100_000, 5, 1000


@pytest.fixture
def crowd(db):
    """Very many retries to come, most urgent, and a few runs that are ready and are not."""
    first = make_task()
    copy(first, TASKS, name="'crowd ' || n")
    away = make_run(task=first, status=Status.RETRYING, priority=0, attempt=1, fence=1)
    far = NOON.replace(year=NOON.year + 50)
    TaskRun.objects.filter(pk=away.pk).update(ready_at=far, next_retry_time=far)
    moment = {
        "sqlite": "datetime(moment, '+' || n || ' seconds')",
        "postgresql": "moment + n * interval '1 second'",
    }
    copy(
        away,
        MANY,
        moment=moment[connection.vendor],
        task_id=f"{first.pk} + n - n / {TASKS} * {TASKS}",
    )
    for _ in range(READY):
        make_run(priority=Priority.LOW, moment=NOON - MINUTE, task=make_task())
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE")


def test_a_poll_and_a_claim_look_at_what_is_ready_and_at_nothing_else(crowd):
    registered("a")
    asked = []
    with connection.execute_wrapper(plans.listening(asked)):
        glance()
        assert len(claim(NOON, owner="a", room=16, priorities=[*Priority]).runs) == READY
    asked = [one for one in asked if "FROM task_runs" in one[0].replace('"', "")]
    assert len(asked) >= 5
    TaskRun.objects.filter(status=Status.RUNNING).update(
        status=Status.SCHEDULED, ready_at=NOON, deadline_at=None, owner=None, slot=None, attempt=0
    )
    for sql, given in asked:
        look(sql, given)


def look(sql, given):
    if connection.vendor == "sqlite":
        with connection.cursor() as cursor:
            cursor.execute(f"EXPLAIN QUERY PLAN {sql}", given)
            steps = [row[3] for row in cursor.fetchall()]
        assert not [s for s in steps if "TEMP B-TREE" in s], (sql, steps)
        scans = [s for s in steps if s.startswith("SCAN") and "task_runs" in s]
        assert all("USING" in s for s in scans), (sql, steps)
        return
    for node in plans.nodes(plans.explained(sql, given)):
        if node.get("Relation Name") == "task_runs":
            touched = node["Actual Rows"] * node["Actual Loops"]
            touched += node.get("Rows Removed by Filter", 0) * node["Actual Loops"]
            assert touched <= 10 * READY, (sql, node)


def test_the_poll_of_due_tasks_looks_at_what_is_due(db):
    make_task(next_run_at=NOON)
    copy(make_task(next_run_at=NOON + 60 * MINUTE), 10_000, name="'copy ' || n")
    asked = []
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE")
    with connection.execute_wrapper(plans.listening(asked)):
        assert len(due(NOON, since=BEGINNING, most=200)) == 1
    ((sql, given),) = asked
    assert "task_due" in plans.indexes(sql, given)
    if connection.vendor == "sqlite":
        return
    looked = [n for n in plans.nodes(plans.explained(sql, given)) if "Index Name" in n]
    (found,) = [node for node in looked if node["Index Name"] == "task_due"]
    assert found["Actual Rows"] + found.get("Rows Removed by Filter", 0) == 1
