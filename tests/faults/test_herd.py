"""Much at once, for several schedulers."""

import threading
import time

import pytest

from cronjob.lib import clock
from runs import trigger
from tests.faults import oracle
from tests.faults.world import LONG, NEVER, until
from tests.target import Answer

pytestmark = pytest.mark.faults
MANY, REPLICAS = (2000, 5) if LONG else (300, 3)
OTHERS = "SELECT count(*) AS n FROM pg_stat_activity WHERE datname = current_database()"


def test_a_herd_of_tasks_due_in_the_same_second_becomes_one_run_each(world):
    world.started(REPLICAS)
    world.plant(MANY, run_at=1.5)
    most = 0

    def made():
        nonlocal most
        most = max(most, world.number(OTHERS) - 1)
        return world.number("SELECT count(*) AS n FROM task_runs") >= MANY

    begun = time.monotonic()
    until(made)
    assert time.monotonic() - begun < 1.5 + 10
    world.quiet()
    assert most <= 4 * REPLICAS, "connections to the database"
    assert len(world.runs("status = 'SUCCESS'")) == MANY
    assert len(world.target.requests) == MANY
    oracle.check(world)


def test_no_race_of_claims_exceeds_the_limit_of_a_task(world):
    lock, under_way, most = threading.Lock(), 0, 0

    def handler(request):
        nonlocal under_way, most
        with lock:
            under_way += 1
            most = max(most, under_way)
        NEVER.wait(0.3)
        with lock:
            under_way -= 1
        return Answer()

    world.target.answers("/count", handler)
    world.started(REPLICAS)
    with world.inside():
        (task,) = world.plant(path="/count", schedule_kind="MANUAL", max_concurrency=2)
        for _ in range(20):
            trigger.trigger(task.pk, now=clock.now())
    world.quiet()
    assert most == 2
    assert len(world.runs("status = 'SUCCESS'")) == 20
    oracle.check(world)
