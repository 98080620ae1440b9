"""A session that forgets to end keeps every dead row; polls step around what it keeps."""

import psycopg
import pytest
from django.db import connection, connections

from cronjob.lib import database as databases
from cronjob.lib.database import oldest_snapshot
from runs import scheduler
from runs.claim import claim
from runs.glance import LowWater, glance
from runs.models import TaskRun
from runs.settle import settle
from tasks.models import Priority
from tests import plans
from tests.factories import MINUTE, NOON, SECOND, copy, make_run, make_task
from tests.runs.engine import outcome, registered

pytestmark = [
    pytest.mark.faults,
    pytest.mark.usefixtures("database"),
    pytest.mark.on("postgresql"),
    pytest.mark.django_db(transaction=True),
]

ROUNDS, BATCH = 12, 200


@pytest.fixture
def session():
    """Reads one number and then keeps its snapshot; what tests before left is out of the way."""
    vacuum()
    where = connections["default"].get_connection_params()
    names = ("host", "port", "dbname", "user", "password")
    with psycopg.connect(**{name: where[name] for name in names if name in where}) as asked:
        asked.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
        asked.execute("SELECT count(*) FROM task_runs")
        yield asked


def vacuum():
    with connection.cursor() as cursor:
        cursor.execute("VACUUM task_runs, tasks")


def churn():
    """Very many runs come, are claimed and end; how it is remembered where they were."""
    registered("a")
    task, low_water = make_task(concurrency_policy="PARALLEL"), LowWater()
    for number in range(ROUNDS):
        first = make_run(task=task, moment=NOON + number * MINUTE)
        later = "moment + n * interval '1 millisecond'"
        copy(first, BATCH - 1, moment=later, ready_at=later.replace("moment", "ready_at"))
        runs = claim(NOON + 99 * MINUTE, owner="a", room=BATCH, priorities=[*Priority]).runs
        assert len(runs) == BATCH
        assert len(settle([(run, outcome(run)) for run in runs], now=NOON)) == BATCH
    glance(low_water)
    return low_water


def touched(work):
    """How many blocks the reading statements of this work look at."""
    asked = []
    with connection.execute_wrapper(plans.listening(asked)):
        work()
    assert asked
    return sum(blocks(sql, given) for sql, given in asked)


def blocks(sql, given):
    plan = plans.explained(sql, given)
    return plan["Shared Hit Blocks"] + plan["Shared Read Blocks"]


def claiming(low_water):
    now = NOON + 99 * MINUTE
    return lambda: claim(now, owner="a", room=16, priorities=[*Priority], since=low_water.ready())


def test_a_poll_and_a_claim_do_not_pay_for_what_an_old_snapshot_keeps(session, monkeypatch):
    monkeypatch.setattr("runs.glance.FORGET_SECONDS", 3600.0)  # however slow this machine is
    low_water = churn()
    for work in (glance, lambda marks: claiming(marks)()):
        from_the_start = touched(lambda work=work: work(LowWater()))
        from_the_mark = touched(lambda work=work: work(low_water))
        assert from_the_start > 3 * from_the_mark, (from_the_start, from_the_mark)


def test_once_the_session_ends_looking_from_the_start_is_cheap_again(session):
    churn()
    before = touched(lambda: glance(LowWater()))
    session.rollback()
    vacuum()
    assert 3 * touched(lambda: glance(LowWater())) < before


def test_what_comes_in_below_the_mark_is_found_a_little_later(monkeypatch):
    low_water = LowWater()
    glance(low_water)
    make_run(moment=NOON)
    assert glance(low_water).ready == {}
    monkeypatch.setattr("runs.glance.FORGET_SECONDS", 0.0)
    assert glance(low_water).ready == {Priority.NORMAL: NOON}


def test_what_is_hinted_at_is_found_at_once():
    low_water = LowWater()
    glance(low_water)
    make_run(moment=NOON)
    low_water.doubt()
    assert glance(low_water).ready == {Priority.NORMAL: NOON}


def test_what_was_made_of_a_late_task_is_found_at_once():
    low_water = LowWater()
    glance(low_water)
    make_run(moment=NOON)
    low_water.lower(NOON)
    runs = claim_all(low_water)
    assert [run.moment for run in runs] == [NOON]


def claim_all(low_water):
    registered("a")
    return claim(
        NOON + SECOND, owner="a", room=9, priorities=[*Priority], since=low_water.ready()
    ).runs


def test_an_old_snapshot_is_told_with_its_age(session, monkeypatch, caplog):
    assert oldest_snapshot() > 0
    monkeypatch.setattr(scheduler, "SNAPSHOT_MAX", 0.0)
    watching = scheduler.Scheduler(loop=None, lease=None, executor=None)
    watching.look_for_snapshots()
    assert "a transaction has been open for 0 s" in caplog.text
    session.rollback()
    assert oldest_snapshot() == 0
    assert databases.SNAPSHOT_MAX >= 60
    assert TaskRun.objects.count() == 0
