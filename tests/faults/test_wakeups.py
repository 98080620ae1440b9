"""What wakes a scheduler that would sleep for a minute."""

import time

import pytest

from cronjob.lib import clock
from runs import standing, trigger
from tests.faults.world import until

pytestmark = pytest.mark.faults

SLOW = {"CRONJOB_POLL_SECONDS": "60"}
SOON = 15  # seconds, on the worst of machines; nobody who polls would be that fast


def done(world, number):
    return world.number("SELECT count(*) AS n FROM task_runs WHERE status = 'SUCCESS'") >= number


def test_a_trigger_an_edit_and_an_enable_wake_it(each_world):
    each_world.started(1, **SLOW)
    begun = time.monotonic()
    with each_world.inside():
        (task,) = each_world.plant(schedule_kind="MANUAL")
        trigger.trigger(task.pk, now=clock.now())
    until(lambda: done(each_world, 1), seconds=SOON, what=each_world.said)
    with each_world.inside():
        task.schedule_kind, task.every_seconds = "EVERY", 1
        standing.edit(task, now=clock.now())
    until(lambda: done(each_world, 2), seconds=SOON, what=each_world.said)
    with each_world.inside():
        standing.disable(task, reason="", now=clock.now())
    each_world.quiet(seconds=SOON)
    before = each_world.number("SELECT count(*) AS n FROM task_runs WHERE status = 'SUCCESS'")
    with each_world.inside():
        standing.enable(task, now=clock.now())
    until(lambda: done(each_world, before + 1), seconds=SOON, what=each_world.said)
    assert time.monotonic() - begun < 60


def test_its_own_next_moment_wakes_it(each_world):
    each_world.started(1, **SLOW)
    begun = time.monotonic()
    each_world.plant(run_at=2)
    until(lambda: done(each_world, 1), seconds=SOON, what=each_world.said)
    assert time.monotonic() - begun < 60
